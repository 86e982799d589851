// Renders templates as helm does, with Go's text/template: render VALUES.json TEMPLATE... The chart uses no function of Sprig.
package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

func main() {
	var values map[string]any
	data, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = json.Unmarshal(data, &values)
	}
	if err != nil {
		panic(err)
	}
	found := template.Must(template.New("chart").Option("missingkey=error").ParseFiles(os.Args[2:]...))
	for _, path := range os.Args[2:] {
		if strings.HasSuffix(path, ".yaml") {
			os.Stdout.WriteString("---\n")
			if err := found.ExecuteTemplate(os.Stdout, filepath.Base(path), values); err != nil {
				panic(err)
			}
		}
	}
}

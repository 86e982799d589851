{{/* Plain text/template only: no function of Sprig, so that any Go program renders the chart as helm does. */}}
{{- define "toolgen.selector" -}}
{app.kubernetes.io/name: toolgen, app.kubernetes.io/instance: {{ printf "%q" .Release.Name }} }
{{- end -}}
{{- define "toolgen.labels" -}}
{app.kubernetes.io/name: toolgen, app.kubernetes.io/instance: {{ printf "%q" .Release.Name }}, app.kubernetes.io/version: {{ printf "%q" .Chart.AppVersion }}, app.kubernetes.io/managed-by: {{ printf "%q" .Release.Service }} }
{{- end -}}
{{- define "toolgen.image" -}}
{{- if .Values.image.digest -}}
{{ printf "%s@%s" .Values.image.repository .Values.image.digest | printf "%q" }}
{{- else -}}
{{ printf "%s:%s" .Values.image.repository .Values.image.tag | printf "%q" }}
{{- end -}}
{{- end -}}

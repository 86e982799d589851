"""toolgen.yaml: what is read, and every mistake named with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.messages import line_names
from toolgen.config.settings import from_specs, load, settings_digest
from toolgen.connectors.secrets import SecretReference
from toolgen.core.errors import ConfigError

WHOLE = """\
sources:
  pets:
    openapi: specs/pets.yaml
    server: http://127.0.0.1:8801
    include: {tags: [pet], operations: ["get*"], effects: [read]}
    auth:
      api_key: "${env:PETS_KEY}"
      login: {username: shop, password: "${file:/run/secrets/pets}"}
  catalog: {graphql: specs/catalog.graphql, endpoint: "http://127.0.0.1:8802/graphql"}
  shop: {sql: "sqlite:///specs/shop.db"}
policies: rules/
generated: out/
gateway: {host: 127.0.0.1, port: 8123, workers: 1}
state: memory
audit: {dir: var/log}
"""


def written(directory: Path, text: str) -> Path:
    path = directory / "toolgen.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_whole_file_is_read_relative_to_where_it_is(tmp_path: Path) -> None:
    settings = load(written(tmp_path, WHOLE))
    assert settings.sources["pets"].config.location == str(tmp_path / "specs/pets.yaml")
    assert settings.sources["pets"].config.server == "http://127.0.0.1:8801"
    assert settings.sources["pets"].config.include == {"tags": ("pet",), "operations": ("get*",), "effects": ("read",)}
    assert settings.sources["shop"].config.location == f"sqlite:///{tmp_path}/specs/shop.db"
    assert (settings.policies, settings.generated) == (tmp_path / "rules", tmp_path / "out")
    assert (settings.port, settings.audit_dir) == (8123, tmp_path / "var/log")
    assert settings.warnings == ()


def test_defaults_are_those_of_the_contract(tmp_path: Path) -> None:
    settings = load(written(tmp_path, 'sources: {shop: {sql: "sqlite:////tmp/shop.db"}}'))
    assert (settings.host, settings.port) == ("127.0.0.1", 8080)
    assert settings.sources["shop"].config.location == "sqlite:////tmp/shop.db"
    assert settings.audit_dir == tmp_path / "var/audit"


def test_a_secret_written_out_is_a_warning_and_stays_out_of_it_and_of_every_repr(tmp_path: Path) -> None:
    settings = load(written(tmp_path, WHOLE.replace("${env:PETS_KEY}", "s3cr3t")))
    (warning,) = settings.warnings
    assert line_names(warning, "toolgen.yaml:7: ", "${env:NAME}", "${file:/path}")
    assert "s3cr3t" not in repr(settings)
    assert "/run/secrets/pets" in repr(settings)


MISTAKES = [
    ("policies: rules/", "polices: rules/", "toolgen.yaml:11: unknown key 'polices' in the file (did you mean 'policies'?)"),
    ("server: http", "sever: http", "toolgen.yaml:4: unknown key 'sever' in sources.pets (did you mean 'server'?)"),
    ("{tags: [pet],", "{tag: [pet],", "toolgen.yaml:5: unknown key 'tag' in sources.pets.include (did you mean 'tags'?)"),
    ("port: 8123", "prot: 8123", "toolgen.yaml:13: unknown key 'prot' in gateway (did you mean 'port'?)"),
    ("port: 8123", "client_certificates: {header: X-Cert}", "object missing required field `proxies`"),
    ("port: 8123", "client_certificates: {header: X-Cert, proxies: []}", "toolgen.yaml:13: has no proxy"),
    ("port: 8123", "client_certificates: {header: X-Cert, proxies: [0.0.0.0/0]}", "toolgen.yaml:13: 0.0.0.0/0 contains all addresses"),
    ("port: 8123", "client_certificates: {header: X-Cert, proxies: [\"::/0\"]}", "toolgen.yaml:13: ::/0 contains all addresses"),
    ("port: 8123", "client_certificates: {header: X-Cert, proxies: [10.0.0.1/8]}", "'10.0.0.1/8' is not a network"),
    ("port: 8123", "client_certificates: {header: X-Cert, proxies: [nginx]}", "toolgen.yaml:13: 'nginx' is not a network"),
    ("port: 8123", "client_certificates: {header: Authorization, proxies: [10.0.0.1]}", "toolgen.yaml:13: 'Authorization' is no"),
    ("port: 8123", "client_certificates: {header: \"X: y\", proxies: [10.0.0.1]}", "toolgen.yaml:13: 'X: y' is not a header"),
    ("port: 8123", "search_above: -1", "toolgen.yaml:13: search_above: takes a number of tokens, 0 for always, or never"),
    ("port: 8123", "search_above: always", "toolgen.yaml:13: search_above: takes a number of tokens, 0 for always, or never"),
    ("port: 8123", "search_above: 1.5", "toolgen.yaml:13: gateway.search_above: expected `int | str`, got `float`"),
    ("port: 8123", "search: fuzzy", "toolgen.yaml:13: gateway.search: invalid enum value 'fuzzy'"),
    ("port: 8123", "port: eighty", "toolgen.yaml:13: gateway.port: expected `int`, got `str`"),
    ("port: 8123", "port: 70000", "toolgen.yaml:13: 70000 is not a port"),
    ("state: memory", "state: memcached://127.0.0.1", "toolgen.yaml:14: state: has an unknown value (use memory, or redis://"),
    ("state: memory", "state: redis:///0", "toolgen.yaml:14: state: has an unknown value"),
    ("state: memory", "state: 'redis://h:65536'", "toolgen.yaml:14: state: has an unknown value"),
    ("state: memory", "state: redis://h/one", "toolgen.yaml:14: state: the path must be the number"),
    ("state: memory", "state: redis://h?prefx=a", "option 'prefx' is unknown, empty or repeated (did you mean 'prefix'?)"),
    ("state: memory", "state: redis://h?prefix=a%20b", "toolgen.yaml:14: state: prefix takes"),
    ("state: memory", "state: redis://h?sslrootcert=ca.pem", "toolgen.yaml:14: state: certificates belong to rediss://"),
    ("state: memory", "state: rediss://h?sslrootcert=ca.pem", "toolgen.yaml:14: state: the file of sslrootcert does not exist"),
    ("state: memory", "state: 'redis://u:${vault}@h'", "toolgen.yaml:14: state: the password is not a known secret reference"),
    ("  pets:", "  Pets:", "toolgen.yaml:2: 'Pets' is not a source name"),
    ("${env:PETS_KEY}", "${vault:a#b}", "toolgen.yaml:7: api_key is not a known secret reference"),
    ("openapi: specs/pets.yaml", "openapi: http://pets.example/a.json", "toolgen.yaml:2: openapi: a description over plain http"),
    ("openapi: specs/pets.yaml", "openapi: http://127.0.0.1.evil.example/", "toolgen.yaml:2: openapi: a description over plain http"),
    ("openapi: specs/pets.yaml", "openapi: https://me:pw@pets.example/", "toolgen.yaml:2: openapi: the URL holds a credential"),
    ("openapi: specs/pets.yaml", "openapi: https:///a.json", "toolgen.yaml:2: openapi: is not a URL that names a host"),
    ("openapi: specs/pets.yaml", "openapi: 'https://pets.example:x/'", "toolgen.yaml:2: openapi: is not a URL"),
    ("openapi: specs/pets.yaml", "openapi: 'https://pets.example/#a'", "toolgen.yaml:2: openapi: is not a URL that names a host"),
    ("graphql: specs/catalog.graphql", "graphql: http://10.0.0.1/graphql", "toolgen.yaml:9: graphql: a description over plain http"),
    ("sql: ", "overlay: a.yaml, sql: ", "toolgen.yaml:10: overlay: belongs to openapi sources"),
    ("    server: http", "    overlay: https://pets.example/o.yaml\n    server: http", "toolgen.yaml:4: overlay: takes files"),
    ("    server: http", "    overlay: [a, '']\n    server: http", "toolgen.yaml:4: overlay: takes files"),
    ("    server: http", "    overlays: a.yaml\n    server: http", "unknown key 'overlays' in sources.pets (did you mean 'overlay'?)"),
    ("state: memory", "tools: {pets__a: {nam: b}}", "toolgen.yaml:14: unknown key 'nam' in tools.pets__a (did you mean 'name'?)"),
    ("openapi: specs/pets.yaml", "openapi: ftp://pets", "toolgen.yaml:2: openapi: takes a file or an http(s) URL"),
    ("    openapi: specs/pets.yaml\n", "", "toolgen.yaml:2: source pets must have exactly one of openapi, graphql, sql"),
    ("http://127.0.0.1:8801", "127.0.0.1:8801", "toolgen.yaml:4: server: is not an http(s) URL"),
    ("http://127.0.0.1:8801", "http://user:pw@127.0.0.1", "toolgen.yaml:4: server: is not an http(s) URL"),
    ("shop: {sql", "shop: {server: 'http://a', sql", "toolgen.yaml:10: server: belongs to openapi sources"),
    ("state: memory", "stat: memory", "toolgen.yaml:14: unknown key 'stat' in the file (did you mean 'state'?)"),
    ("audit: {dir: var/log}", "audit: {dir: var/log", "is not YAML"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "message"), MISTAKES)
def test_mistakes_are_named_with_their_line(tmp_path: Path, right: str, wrong: str, message: str) -> None:
    assert right in WHOLE
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, WHOLE.replace(right, wrong, 1)))
    assert message in str(caught.value)
    assert "pw@" not in str(caught.value)


@pytest.mark.parametrize(
    "host", ["https://pets.example", "http://localhost:1", "http://127.0.0.2", "http://[::1]:8080"]
)
def test_a_description_is_fetched_over_https_or_from_this_machine(tmp_path: Path, host: str) -> None:
    text = WHOLE.replace("openapi: specs/pets.yaml", f"openapi: '{host}/openapi.json'")
    config = load(written(tmp_path, text)).sources["pets"].config
    assert (config.location, config.pin) == (f"{host}/openapi.json", None)


@pytest.mark.parametrize(("given", "paths"), [("a.yaml", ["a.yaml"]), ("[b/a.yaml, /c.yaml]", ["b/a.yaml", "/c.yaml"])])
def test_overlays_are_a_file_or_several_beside_toolgen_yaml(tmp_path: Path, given: str, paths: list[str]) -> None:
    text = WHOLE.replace("    server:", f"    overlay: {given}\n    server:")
    config = load(written(tmp_path, text)).sources["pets"].config
    assert config.overlay == tuple(str(tmp_path / path) for path in paths)


def test_overrides_are_read_in_order_with_their_lines(tmp_path: Path) -> None:
    text = f"{WHOLE}tools:\n  getPet: {{effect: write, title: ' T '}}\n  '#/paths/~1pets/get': {{hidden: true}}\n"
    first, second = load(written(tmp_path, text)).overrides
    assert (first.key, first.where, first.effect, first.title) == ("getPet", "toolgen.yaml:17", "write", "T")
    assert (first.name, first.description, first.hidden) == (None, None, False)
    assert (second.key, second.where, second.hidden) == ("#/paths/~1pets/get", "toolgen.yaml:18", True)


def test_a_pin_belongs_to_a_remote_source_of_its_name(tmp_path: Path) -> None:
    entry = {"url": "https://pets.example/a", "digest": "sha256:0", "copy": "toolgen.pins/pets/openapi.json"}
    lock = {"format": 1, "descriptions": {"pets": entry, "catalog": {**entry, "copy": "toolgen.pins/catalog/a"}}}
    (tmp_path / "toolgen.lock").write_text(json.dumps(lock), encoding="utf-8")
    sources = load(written(tmp_path, WHOLE.replace("specs/pets.yaml", "https://pets.example/a"))).sources
    assert sources["pets"].config.file == str(tmp_path / "toolgen.pins/pets/openapi.json")
    assert sources["catalog"].config.pin is None


def test_no_file_is_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"toolgen\.yaml"):
        load(tmp_path / "toolgen.yaml")


@pytest.mark.parametrize("text", ["", "[]", "sources: {}", "5"])
def test_an_empty_project_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"toolgen\.yaml"):
        load(written(tmp_path, text))


def test_bare_descriptions_get_a_kind_and_a_name(tmp_path: Path) -> None:
    (tmp_path / "introspection.json").write_text('{"data": {"__schema": {}}}', encoding="utf-8")
    specs = ("Pet Store-3.yaml", "a/b.graphql", "sqlite:///shop.db", "introspection.json", "x/b.json", "3.yaml")
    sources = from_specs(specs, tmp_path)
    assert {name: source.config.kind for name, source in sources.items()} == {
        "pet_store_3": "openapi",
        "b": "graphql",
        "shop": "sql",
        "introspection": "graphql",
        "b_2": "openapi",
        "api_3": "openapi",
    }


@pytest.mark.parametrize(
    ("file", "title", "name"),
    [
        ("apisguru__stripe.com.json", "Stripe API", "stripe"),
        ("collected__click.rest.swagger-v1.json", "DocuSign Click API", "docusign_click"),
        ("octokit-openapi23.0.2__api.github.com.json", "GitHub's official OpenAPI spec + Octokit extension", "github"),
        ("openapi.json", "The Acme Payments API (v2)", "acme_payments"),
        ("swagger-v1.json", "Weaviate REST API", "weaviate"),
        ("petstore.yaml", "Swagger Petstore - OpenAPI 3.0", "petstore"),
        ("slack_web_openapi_v2.yaml", "Slack Web API", "slack"),
        ("octokit-openapi-generated-api.github.com.json", "GitHub's official OpenAPI spec + Octokit", "github"),
        ("billing.yaml", "Acme Payments", "billing"),
        ("api.json", "Acme Payments", "api"),
        ("openapi.json", "OpenAPI", "openapi"),
        ("openapi.yaml", "日本語", "openapi"),
        ("swagger.json", "3 Ways", "ways"),
        ("openapi.yaml", "Spotify Web API with fixes and improvements from somebody", "spotify"),
        ("openapi.json", "API with Everything", "everything"),
        ("openapi.json", "A very long title that goes on without end", "very_long_title_that"),
    ],
)
def test_a_title_names_a_source_better_than_an_empty_file_name(
    tmp_path: Path, file: str, title: str, name: str
) -> None:
    document = {
        "openapi": "3.1.0",
        "info": {"license": {"name": "x", "title": "not this"}, "title": title, "version": "1"},
        "paths": {},
    }
    text = (
        yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
        if file.endswith("yaml")
        else json.dumps(document, indent=1)
    )
    (tmp_path / file).write_text(text, encoding="utf-8")
    assert list(from_specs((file,), tmp_path)) == [name]


@pytest.mark.parametrize(
    "text",
    [
        "openapi: 3.1.0\ninfo:\n  title: Acme Payments\n  version: '1'\npaths: {}\n",
        "openapi: 3.1.0\r\ninfo:\r\n  version: '1'\r\n  title: Acme Payments\r\npaths: {}\r\n",
        "\ufeffinfo:\n  title: Acme Payments\nopenapi: 3.1.0\npaths: {}\n",
        "---\n# first\ninfo: # of it\n\n  # more\n  title: 'Acme Payments' # so\nopenapi: 3.1.0\npaths: {}\n",
        '"info":\n    "title": "Acme Payments"\n"openapi": "3.1.0"\npaths: {}\n',
        "openapi: 3.1.0\ninfo: {version: '1', title: Acme Payments}\npaths: {}\n",
        "openapi: 3.1.0\ninfo: {\n  version: '1',\n  title: Acme Payments\n}\npaths: {}\n",
        "info:\n  title: >-\n    Acme\n    Payments\n  version: '1'\npaths: {}\n",
        "info:\n  description: |\n    info:\n      title: Another\n  title: |\n    Acme Payments\npaths: {}\n",
        "info:\n  title:\n    Acme\n    Payments\npaths: {}\n",
        "x-name: &name Acme Payments\nopenapi: 3.1.0\ninfo:\n  title: *name\npaths: {}\n",
        "x-info: &info {title: Acme Payments}\ninfo: *info\npaths: {}\n",
        "{openapi: 3.1.0, info: {title: Acme Payments, version: '1'}, paths: {}}\n",
        "  openapi: 3.1.0\n  info:\n    title: Acme Payments\n  paths: {}\n",
        "? info\n: title: Acme Payments\nopenapi: 3.1.0\npaths: {}\n",
        "info: !!map\n  title: !!str Acme Payments\npaths: {}\n",
        "paths:\n  /a:\n    get: {summary: x}\ninfo:\n  title: Acme Payments\n",
    ],
)
def test_a_title_is_found_in_every_style_of_yaml(tmp_path: Path, text: str) -> None:
    (tmp_path / "openapi.yaml").write_bytes(text.encode())
    assert list(from_specs(("openapi.yaml",), tmp_path)) == ["acme_payments"]


DATABASES = [
    (
        "postgresql://app:${env:PGPASS}@db.example/shop",
        "postgresql://app@db.example/shop",
        "SecretReference(env:PGPASS)",
    ),
    (
        "mysql://app:${file:/run/secrets/db}@h/d?sslmode=require",
        "mysql://app@h/d?sslmode=require",
        "SecretReference(file:/run/secrets/db)",
    ),
    ("mariadb://app@h/d", "mariadb://app@h/d", None),
]


@pytest.mark.parametrize(("written_as", "location", "password"), DATABASES)
def test_the_password_of_a_database_is_kept_apart(
    tmp_path: Path, written_as: str, location: str, password: str | None
) -> None:
    source = load(written(tmp_path, f'sources: {{shop: {{sql: "{written_as}"}}}}')).sources["shop"]
    assert source.config.location == location
    assert {name: repr(value) for name, value in source.auth.items()} == ({"password": password} if password else {})


def test_a_password_written_out_is_a_warning_and_shown_nowhere(tmp_path: Path) -> None:
    settings = load(written(tmp_path, 'sources: {shop: {sql: "postgresql://app:s3%2Fcr3t@db/shop"}}'))
    (reference,) = settings.sources["shop"].auth.values()
    assert reference == SecretReference("literal", "s3/cr3t")
    assert len(settings.warnings) == 1
    assert "cr3t" not in repr(settings)


WRONG = [
    '{sql: "postgresql://app:${env:A}@db/shop", auth: {password: "${env:B}"}}',
    '{sql: "postgresql://app@db/shop", auth: {token: "${env:B}"}}',
    '{sql: "postgresql://app@db/shop", auth: {password: {username: app, password: "${env:B}"}}}',
    '{sql: "postgresql://app@db/shop", auth: {password: {token: "${env:B}"}}}',
    '{sql: "postgresql://app@db/shop", auth: {password: {}}}',
    '{sql: "sqlite:///shop.db", auth: {password: "${env:B}"}}',
    '{sql: "duckdb:///shop.db", auth: {password: "${env:B}"}}',
    '{sql: "postgresql://app:s3cr3t@db/shop?sslmode=maybe"}',
    '{sql: "oracle://app:s3cr3t@db/shop"}',
]


@pytest.mark.parametrize("source", WRONG)
def test_what_is_wrong_with_a_database_is_said_without_its_password(tmp_path: Path, source: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, f"sources: {{shop: {source}}}"))
    assert "s3cr3t" not in str(caught.value)
    assert "toolgen.yaml:" in str(caught.value)


def test_what_a_build_is_pinned_to_names_the_server_and_never_the_password(tmp_path: Path) -> None:
    digests = {
        settings_digest(load(written(tmp_path, f'sources: {{s: {{sql: "{sql}"}}}}')).sources["s"].config, ())
        for sql in ("postgresql://a:${env:X}@one/d", "postgresql://a:${env:Y}@one/d", "postgresql://a@two/d")
    }
    assert len(digests) == 2

package pages

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"millrace/task/param"
)

func params(t *testing.T, text string) (p param.Params) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

const declared = `[{"name":"env","title":"Where to","enum":["staging","production"],"default":"staging"},{"name":"replicas","type":"integer","min":1,"max":20,"default":2},
	{"name":"version","type":"string","pattern":"^v"},{"name":"sites","type":"array","optional":true},{"name":"dry","type":"boolean","default":false},
	{"name":"token","secret":true,"default":{"file":"/run/a"}}]`

// A form has a field for each parameter, of its kind, filled with its present value.
func TestFields(t *testing.T) {
	t.Parallel()
	f := newForm(params(t, declared), nil)
	var all []string
	for _, is := range f.Fields {
		all = append(all, strings.Join([]string{is.Name, string(is.Kind), is.Value, is.Min, is.Max, strings.Join(is.Options, "|"), map[bool]string{true: "must"}[is.Required]}, ","))
	}
	if got, want := strings.Join(all, "\n"), "env,choice,staging,,,staging|production,\nreplicas,whole,2,1,20,,\nversion,text,,,,,must\nsites,lines,,,,,\ndry,choice,false,,,true|false,\ntoken,secret,file:/run/a,,,,"; got != want {
		t.Errorf("the fields are\n%s\nwant\n%s", got, want)
	}
	if f.Fields[0].Label != "Where to (env)" || !strings.Contains(f.Fields[1].About, "1 to 20") {
		t.Errorf("they are called %+v", f.Fields)
	}
	again := newForm(params(t, declared), map[string]json.RawMessage{"version": []byte(`"v1"`), "replicas": []byte("7")})
	if again.Fields[1].Value != "7" || again.Fields[2].Value != "v1" || again.Fields[2].Required {
		t.Errorf("of a task there are %+v", again.Fields)
	}
	free := newForm(params(t, `{"a":"1.10","b":{"c":1}}`), map[string]json.RawMessage{"d": []byte("true")})
	if len(free.Fields) != 3 || free.Declared || free.Fields[0].Value != "1.10" || free.Fields[1].Kind != Lines || free.Fields[2].Value != "true" {
		t.Errorf("without declarations there are %+v", free.Fields)
	}
}

// A typed value replaces the present one, and each field says what is wrong with it.
func TestRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		params string
		typed  map[string]string
		want   map[string]string
		wrong  string // the names of fields
	}{
		{declared, map[string]string{"env": "staging", "replicas": "2", "version": "v1", "dry": "false"}, map[string]string{"version": "v1"}, ""},
		{declared, map[string]string{"env": "production", "replicas": "3", "version": "v1\r\nx", "sites": `["a"]`, "token": "file:/b"}, map[string]string{"env": "production", "replicas": "3", "version": "v1\nx", "sites": `["a"]`, "token": "file:/b"}, ""},
		{declared, map[string]string{"env": "prod", "replicas": "21", "sites": "{}", "token": "secret"}, nil, "env replicas version sites token"},
		{`{"a":"1.10"}`, map[string]string{"a": "1.10"}, map[string]string{}, ""},
		{`{"a":"1.10"}`, map[string]string{"a": "2"}, map[string]string{"a": "2"}, ""},
	} {
		f := newForm(params(t, c.params), nil)
		texts, fine := f.Read(func(name string) string { return c.typed[name] })
		var wrong []string
		for _, is := range f.Fields {
			if is.Wrong != "" {
				wrong = append(wrong, is.Name)
			}
			if is.Kind == Secret && strings.Contains(is.Wrong, "secret\"") {
				t.Errorf("a secret is repeated: %s", is.Wrong)
			}
		}
		if fine != (c.wrong == "") || strings.Join(wrong, " ") != c.wrong || fine && !maps.Equal(texts, c.want) {
			t.Errorf("%v sets %v, wrong are %q; want %v, %q", c.typed, texts, wrong, c.want, c.wrong)
		}
	}
}

package birth_test

import (
	"encoding/json"
	"strings"
	"testing"

	"millrace/events/logtest"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/param"
)

// declared returns parameters of all kinds.
func declared(t *testing.T) param.Params {
	t.Helper()
	var p param.Params
	if err := json.Unmarshal([]byte(`[
		{"name": "env", "enum": ["staging", "production"], "default": "staging"},
		{"name": "replicas", "type": "integer", "min": 1, "max": 20, "default": 2},
		{"name": "version", "type": "string", "pattern": "^v?\\d+\\.\\d+$", "max": 8},
		{"name": "ratio", "type": "number", "min": 0, "optional": true},
		{"name": "dry", "type": "boolean", "default": false},
		{"name": "sites", "type": "array", "min": 1, "schema": {"items": {"type": "string"}}, "optional": true},
		{"name": "more", "type": "object", "max": 2, "optional": true},
		{"name": "any", "optional": true},
		{"name": "token", "secret": true, "default": {"file": "/run/secrets/token"}}
	]`), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// Each parameter is checked against its declaration, as text and as JSON. The error names the
// invalid value and the accepted ones.
func TestParamsSettle(t *testing.T) {
	p := declared(t)
	if err := (&job.Job{Name: "j", Params: p, Spec: job.Spec{Handler: "h"}}).Validate(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		params, texts string // JSON
		want          string // the result beside the defaults, or parts of the error
		wrong         bool
	}{
		"defaults":             {`{"version":"1.10"}`, ``, `{"dry":false,"env":"staging","replicas":2,"token":{"file":"/run/secrets/token"},"version":"1.10"}`, false},
		"texts become types":   {``, `{"version":"1.10","replicas":"3","dry":"true","ratio":"0.5","sites":"[\"eu\"]","more":"{\"a\":1}","any":"x y","env":"production"}`, `{"any":"x y","dry":true,"env":"production","more":{"a":1},"ratio":0.5,"replicas":3,"sites":["eu"],"token":{"file":"/run/secrets/token"},"version":"1.10"}`, false},
		"texts win":            {`{"version":"1.1","replicas":5}`, `{"replicas":"6"}`, `{"dry":false,"env":"staging","replicas":6,"token":{"file":"/run/secrets/token"},"version":"1.1"}`, false},
		"a secret's file":      {`{"version":"1.1"}`, `{"token":"file:/etc/other"}`, `{"dry":false,"env":"staging","replicas":2,"token":{"file":"/etc/other"},"version":"1.1"}`, false},
		"missing":              {``, ``, `parameter version is missing: want text of at most 8 characters in the form ^v?\d+\.\d+$`, true},
		"another name":         {`{"version":"1.1","evn":1}`, ``, `parameter "evn" is not one of the job's, which are env, replicas, version, ratio, dry, sites, more, any, token`, true},
		"no such word":         {`{"version":"1.1"}`, `{"env":"prod"}`, `parameter env is "prod", want staging or production`, true},
		"too large":            {`{"version":"1.1","replicas":21}`, ``, `parameter replicas is 21, want a whole number from 1 to 20`, true},
		"not whole":            {`{"version":"1.1","replicas":1.5}`, ``, `parameter replicas is 1.5, want a whole number from 1 to 20`, true},
		"text for a number":    {`{"version":"1.1"}`, `{"replicas":"many"}`, `parameter replicas is "many", want a whole number from 1 to 20`, true},
		"a number for text":    {`{"version":1.1}`, ``, `parameter version is 1.1, want text`, true},
		"too long":             {`{"version":"12345.67890"}`, ``, `want text of at most 8 characters`, true},
		"another pattern":      {`{"version":"new"}`, ``, `in the form ^v?\d+\.\d+$`, true},
		"too small":            {`{"version":"1.1","ratio":-1}`, ``, `parameter ratio is -1, want a number at least 0`, true},
		"neither true nor not": {`{"version":"1.1"}`, `{"dry":"yes"}`, `parameter dry is "yes", want true or false`, true},
		"a list of others":     {`{"version":"1.1","sites":["eu",5]}`, ``, `parameter sites is ["eu",5], want a JSON list of at least 1 values as its schema has it: `, true},
		"an empty list":        {`{"version":"1.1","sites":[]}`, ``, `parameter sites is [], want a JSON list of at least 1 values`, true},
		"no object":            {`{"version":"1.1","more":[]}`, ``, `parameter more is [], want a JSON object of at most 2 fields`, true},
		"null":                 {`{"version":null}`, ``, `parameter version is null, want text`, true},
		"a secret in clear":    {`{"version":"1.1","token":"hunter2"}`, ``, `parameter token is a secret, and a value would stay in the log for all to read: want a file on the node that holds it, as file:PATH or {"file": "PATH"}`, true},
		"a secret as text":     {`{"version":"1.1"}`, `{"token":"hunter2"}`, `parameter token is a secret`, true},
		"a secret and more":    {`{"version":"1.1","token":{"file":"a","value":"hunter2"}}`, ``, `parameter token is a secret`, true},
		"several":              {`{"replicas":0,"x":1}`, ``, `parameter replicas is 0`, true},
		"a long value":         {`{"version":"` + strings.Repeat("x", 200) + `"}`, ``, `x…, want`, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := birth.Submission{}
			if c.params != "" {
				if err := json.Unmarshal([]byte(c.params), &s.Params); err != nil {
					t.Fatal(err)
				}
			}
			if c.texts != "" {
				if err := json.Unmarshal([]byte(c.texts), &s.Texts); err != nil {
					t.Fatal(err)
				}
			}
			birth, err := birth.Of(s, &job.Job{Name: "j", Params: p, Spec: job.Spec{Handler: "h"}}, 1, logtest.Noon)
			switch {
			case c.wrong && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2")):
				t.Errorf("it is refused with %v, want %s", err, c.want)
			case !c.wrong && (err != nil || string(birth.Params) != c.want || len(birth.Secrets) != 1):
				t.Errorf("the parameters are %s, secrets %v, %v, want %s", birth.Params, birth.Secrets, err, c.want)
			}
		})
	}
}

// Without declarations, text is JSON if it parses, or else text, and any name is valid.
func TestTextsWithoutDeclarations(t *testing.T) {
	s := birth.Submission{Spec: &job.Spec{Handler: "h"}, Texts: map[string]string{"n": "1", "s": "a b", "j": `{"a":[]}`}}
	if birth, err := birth.Of(s, nil, 0, logtest.Noon); err != nil || string(birth.Params) != `{"j":{"a":[]},"n":1,"s":"a b"}` {
		t.Errorf("the parameters are %s, %v", birth.Params, err)
	}
}

// A copy may change declared parameters within their declarations. The other parameters stay.
func TestCopyOfDeclared(t *testing.T) {
	p := declared(t)
	of := logtest.Given(logtest.InError...)
	of.Params, of.Secrets = json.RawMessage(`{"item":"eu","replicas":99,"token":{"file":"/a"}}`), []string{"token"}
	for texts, want := range map[string]string{
		"env=production": `{"env":"production","item":"eu","replicas":99,"token":{"file":"/a"}}`,
		"item=us":        `{"item":"us","replicas":99,"token":{"file":"/a"}}`,
		"replicas=0":     "parameter replicas is 0, want a whole number from 1 to 20",
		"token=hunter2":  "parameter token is a secret",
		"other=1":        `parameter "other" is not one of the job's`,
	} {
		name, text, _ := strings.Cut(texts, "=")
		birth, err := birth.Copy(of, p.Declared, birth.Submission{Texts: map[string]string{name: text}}, logtest.Noon)
		if got := string(birth.Params); err != nil && !strings.Contains(err.Error(), want) || err == nil && (got != want || len(birth.Secrets) != 1) {
			t.Errorf("%s: %s, secrets %v, %v, want %s", texts, got, birth.Secrets, err, want)
		}
	}
	if p.Find("env").Optional {
		t.Error("the copy changed what was declared")
	}
}

// A value that is set later wins, as text and as JSON.
func TestSubmissionWithTexts(t *testing.T) {
	settled := func(s birth.Submission) (json.RawMessage, error) {
		s.Spec = &job.Spec{Handler: "h"}
		birth, err := birth.Of(s, nil, 0, logtest.Noon)
		return birth.Params, err
	}
	text := func(v string) birth.Submission { return birth.Submission{Texts: map[string]string{"a": v}} }
	value := func(v string) birth.Submission {
		return birth.Submission{Params: map[string]json.RawMessage{"a": json.RawMessage(v)}}
	}
	for name, c := range map[string]struct {
		of, over birth.Submission
		want     string
	}{
		"text over text":   {text("1"), text("2"), `{"a":2}`},
		"text over value":  {value("1"), text("2"), `{"a":2}`},
		"value over text":  {text("1"), value("2"), `{"a":2}`},
		"value over value": {value("1"), value("2"), `{"a":2}`},
	} {
		whole := c.of.With(c.over)
		if got, err := settled(whole); err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
		if again, err := settled(c.of); err != nil || string(again) != `{"a":1}` {
			t.Errorf("%s: the first is %s now, %v", name, again, err)
		}
	}
}

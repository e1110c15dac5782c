package job

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"millrace/task/param"
	"millrace/task/value"
)

// asked is an approval with a form, of certain people.
var asked = &Signal{Name: "go", Who: []string{"ann", "proxy:*@example.com"}, Form: []param.Param{
	{Name: "when", Type: param.String, Enum: []json.RawMessage{json.RawMessage(`"now"`), json.RawMessage(`"tonight"`)}},
	{Name: "share", Type: param.Integer, Default: json.RawMessage(`10`)},
	{Name: "note", Optional: true},
}}

// Those for which functions wait: of an answer with fields, and of one that is a value.
var (
	fields = Awaiting{Signal: &Signal{Name: "go", Form: []param.Param{{Name: "ok", Type: param.Boolean}, {Name: "note", Type: param.String, Optional: true}}}}
	count  = Awaiting{Signal: &Signal{Name: "go", Form: []param.Param{{Name: Lone, Type: param.Integer}}}, Alone: true}
	// perhaps may be answered with nothing
	perhaps = Awaiting{Signal: &Signal{Name: "go", Form: []param.Param{{Name: Lone, Type: param.Integer, Optional: true}}}, Alone: true}
)

func TestSignalValidate(t *testing.T) {
	for want, s := range map[string]*Signal{
		"":                  {Name: "approval", Timeout: value.Duration(time.Hour), OnTimeout: SignalExpire, Form: asked.Form, Who: asked.Who, Remind: value.Duration(time.Hour)},
		"signal.on_timeout": {OnTimeout: "later"},
		"is not set":        {OnTimeout: SignalGoOn},
		"signal.name":       {Name: "a b"},
		"signal.timeout":    {Timeout: -1},
		"signal.remind":     {Remind: value.Duration(time.Second)},
		"signal.who[1]":     {Who: []string{"ann", "[a"}},
		"signal.who[0]":     {Who: []string{" "}},
		"signal.who has":    {Who: make([]string, 101)},
		"signal.form[0].":   {Form: []param.Param{{Name: "a", Type: "colour"}}},
		"has the secret":    {Form: []param.Param{{Name: "a", Secret: true}}},
	} {
		err := s.validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// TestSignalAnswers holds what people answer against the forms of signals.
func TestSignalAnswers(t *testing.T) {
	for _, c := range []struct {
		of         Awaiting
		by, data   string
		texts      map[string]string
		want, told string
	}{
		{by: "bob", told: `{"signal":{"by":"bob"}}`},
		{by: "bob", data: `7`, told: `{"signal":{"by":"bob","data":7}}`},
		{by: "bob", data: `{`, want: "not valid JSON"},
		{by: "bob", data: `"` + strings.Repeat("x", MaxInputs) + `"`, want: "bytes"},
		{by: "bob", texts: map[string]string{"n": "1"}, told: `{"signal":{"by":"bob","data":{"n":1}}}`},
		{by: "bob", data: `7`, texts: map[string]string{"n": "1"}, want: "no JSON object"},
		{of: Awaiting{Signal: asked}, by: "bob", texts: map[string]string{"when": "now"}, want: "ann or proxy:*@example.com may give or refuse it, and not bob"},
		{of: Awaiting{Signal: asked}, by: "ann", texts: map[string]string{"when": "now"}, told: `{"go":{"by":"ann","data":{"share":10,"when":"now"}}}`},
		{of: Awaiting{Signal: asked}, by: "proxy:eve@example.com", data: `{"when":"now","share":2e1}`, texts: map[string]string{"when": "tonight"}, told: `{"go":{"by":"proxy:eve@example.com","data":{"share":20,"when":"tonight"}}}`},
		{of: Awaiting{Signal: asked}, by: "ann", want: "parameter when is missing: want now or tonight"},
		{of: Awaiting{Signal: asked}, by: "ann", texts: map[string]string{"when": "later", "share": "much"}, want: "share is \"much\", want a whole number"},
		{of: Awaiting{Signal: asked}, by: "ann", data: `{"when":"now","who":"me"}`, want: "who"},
		{of: Awaiting{Signal: asked}, by: "ann", data: `{"when":"now","when":"tonight"}`, want: "twice"},
		{of: fields, by: "bob", data: `{"ok":true}`, told: `{"go":{"by":"bob","data":{"ok":true}}}`},
		{of: fields, by: "bob", texts: map[string]string{"ok": "true", "note": "7"}, told: `{"go":{"by":"bob","data":{"note":"7","ok":true}}}`},
		{of: fields, by: "bob", want: "parameter ok is missing: want true or false"},
		{of: fields, by: "bob", data: ` null`, want: "ok is missing"},
		{of: fields, by: "bob", data: `null`, texts: map[string]string{"note": "a"}, want: "ok is missing"},
		{of: fields, by: "bob", data: `{}`, want: "parameter ok is missing: want true or false"},
		{of: fields, by: "bob", data: `{"ok":"yes"}`, want: `parameter ok is "yes", want true or false`},
		{of: fields, by: "bob", data: `{"ok":true,"why":"so"}`, want: `parameter "why" is not one`},
		{of: fields, by: "bob", data: `true`, want: "no JSON object"},
		{of: count, by: "bob", data: `7.0`, told: `{"go":{"by":"bob","data":7}}`},
		{of: count, by: "bob", texts: map[string]string{"value": "7"}, told: `{"go":{"by":"bob","data":7}}`},
		{of: count, by: "bob", data: `7`, texts: map[string]string{"value": "8"}, told: `{"go":{"by":"bob","data":8}}`},
		{of: count, by: "bob", data: `null`, texts: map[string]string{"value": "8"}, told: `{"go":{"by":"bob","data":8}}`},
		{of: count, by: "bob", want: `approval "go": parameter value is missing: want a whole number`},
		{of: count, by: "bob", data: `null`, want: "value is null, want a whole number"},
		{of: perhaps, by: "bob", told: `{"go":{"by":"bob"}}`},
		{of: perhaps, by: "bob", data: `null`, told: `{"go":{"by":"bob"}}`},
		{of: count, by: "bob", data: `"seven"`, want: `approval "go": parameter value is "seven", want a whole number`},
		{of: count, by: "bob", data: `{"value":7}`, want: "want a whole number"},
		{of: count, by: "bob", texts: map[string]string{"count": "7"}, want: `"count" is not one`},
		{of: Awaiting{Signal: asked}, by: "ann", data: `null`, want: "when is missing"},
		{of: Awaiting{Signal: &Signal{Who: []string{"ann", EveryOperator}}}, by: "bob", told: `{"signal":{"by":"bob"}}`},
	} {
		inputs, err := c.of.Inputs(c.by, json.RawMessage(c.data), c.texts)
		switch {
		case c.want == "" && (err != nil || string(inputs) != c.told):
			t.Errorf("%s is told %s, %v; want %s", c.by, inputs, err, c.told)
		case c.want == "":
			if wrong := c.of.Forged(c.by, inputs); wrong != nil {
				t.Errorf("%s counts as forged: %v", inputs, wrong)
			}
		case err == nil || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s, %s, %v: %v, want %q", c.by, c.data, c.texts, err, c.want)
		}
		if errors.Is(err, ErrNotAsked) != strings.Contains(c.want, "not bob") {
			t.Errorf("%s: %v", c.by, err)
		}
	}
}

// A program asks by a list of questions, or by one without a name.
func TestFormOf(t *testing.T) {
	for _, c := range []struct {
		text, form string
		alone      bool
		want       string
	}{
		{form: `null`},
		{text: `null`, form: `null`},
		{text: "[" + strings.Repeat(" ", MaxForm) + "]", want: "form has 16386 bytes, want at most 16384"},
		{text: `[]`, form: `[]`},
		{text: `[{"name":"when","enum":["now"]}]`, form: `[{"name":"when","enum":["now"]}]`},
		{text: `[{"type":"integer","max":9}]`, form: `[{"name":"value","type":"integer","max":9}]`, alone: true},
		{text: `[{"type":"integer"},{"name":"a"}]`, want: "form[0].name"},
		{text: `[{"name":"a","type":"int"}]`, want: "form[0].type"},
		{text: `[{"name":"a","kind":"integer"}]`, want: `form: there is no field "kind"`},
		{text: `[{"name":"a","secret":true}]`, want: "form has the secret a"},
		{text: `{"type":"integer"}`, want: "form: "},
	} {
		form, alone, err := FormOf(json.RawMessage(c.text))
		switch got := string(value.Must(json.Marshal(form))); {
		case c.want == "" && (err != nil || got != c.form || alone != c.alone):
			t.Errorf("%s is %s, %v, %v", c.text, got, alone, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %s", c.text, err, c.want)
		}
	}
}

// TestForgedAnswers holds facts against a signal that names who may give it, and asks.
func TestForgedAnswers(t *testing.T) {
	for inputs, actor := range map[string]string{
		``: "ann", `{}`: "ann", `7`: "ann", `{"go":true}`: "ann",
		`{"go":{"by":"ann","data":{"when":"now"}}}`:   "worker",
		`{"go":{"by":"bob","data":{"when":"now"}}}`:   "bob",
		`{"go":{"by":"ann","data":{"when":"later"}}}`: "ann",
		`{"go":{"by":"ann"}}`:                         "ann",
	} {
		if (Awaiting{Signal: asked}).Forged(actor, json.RawMessage(inputs)) == nil {
			t.Errorf("%s by %s counts", inputs, actor)
		}
	}
	if err := (Awaiting{Signal: &Signal{Name: "go"}}).Forged("worker", nil); err != nil {
		t.Errorf("a signal that asks nobody and nothing: %v", err)
	}
}

// Who is named may answer in any role; the word for all operators names nobody.
func TestNamed(t *testing.T) {
	s := &Signal{Who: []string{"ann", "proxy:*@example.com", EveryOperator}}
	for name, want := range map[string]bool{"ann": true, "proxy:bob@example.com": true, "bob": false, EveryOperator: false, "": false} {
		if got := s.Names(name); got != want || (*Signal)(nil).Names(name) {
			t.Errorf("%q is named: %v", name, got)
		}
	}
}

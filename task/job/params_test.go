package job

import (
	"encoding/json"
	"strings"
	"testing"

	"millrace/task/param"
)

// An invalid declaration is refused with its field.
func TestParamsValidate(t *testing.T) {
	for text, want := range map[string]string{
		`[{"name": "a b"}]`:                                              `params[0].name is "a b", want 1 to 64`,
		`[{"name": "a"}, {"name": "a"}]`:                                 `params[1].name: "a" is the name of params[0] as well`,
		`[{"name": "a", "type": "int"}]`:                                 `params[0].type is "int", want one of string, integer`,
		`[{"name": "a", "min": 1}]`:                                      `params[0].min bounds a number, or how long`,
		`[{"name": "a", "type": "boolean", "max": 1}]`:                   `params[0].max bounds a number`,
		`[{"name": "a", "type": "string", "min": 1.5}]`:                  `params[0].min is 1.5, want a whole number`,
		`[{"name": "a", "type": "array", "max": -1}]`:                    `params[0].max is -1, want a whole number`,
		`[{"name": "a", "type": "number", "min": 2, "max": 1}]`:          `params[0].max is 1, want at least the min of 2`,
		`[{"name": "a", "pattern": "x"}]`:                                `params[0].pattern is for text`,
		`[{"name": "a", "type": "string", "pattern": "("}]`:              `params[0].pattern: `,
		`[{"name": "a", "type": "integer", "enum": [1, "b"]}]`:           `params[0].enum[1]: parameter a is "b", want a whole number`,
		`[{"name": "a", "type": "integer", "max": 3, "default": 4}]`:     `params[0].default: parameter a is 4, want a whole number at most 3`,
		`[{"name": "a", "enum": ["x"], "default": "y"}]`:                 `params[0].default: parameter a is "y", want x`,
		`[{"name": "a", "secret": true, "default": "hunter2"}]`:          `params[0].default: parameter a is a secret`,
		`[{"name": "a", "secret": true, "type": "string"}]`:              `params[0].secret is the name of a file`,
		`[{"name": "a", "schema": {"$ref": "file:///etc/passwd"}}]`:      `params[0].schema: $ref refers to another schema`,
		`[{"name": "a", "schema": {"items": [{"not": {"$ref": "#"}}]}}]`: `params[0].schema`,
		`[{"name": "a", "schema": {"minimun": 1}}]`:                      `params[0].schema: "minimun" is no keyword`,
		`[{"name": "a", "schema": {"type": 5}}]`:                         `params[0].schema`,
	} {
		var p param.Params
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		err := (&Job{Name: "j", Params: p, Spec: Spec{Handler: "h"}}).Validate()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s\nis refused with %v\nwant %s", text, err, want)
		}
	}

	needed := param.Params{Declared: []param.Param{{Name: "a", Type: param.Integer}}}
	for want, j := range map[string]Job{
		"params[0].default is missing: the schedule of the job": {Params: needed, Schedule: &Schedule{Cron: "@daily"}, Spec: Spec{Handler: "h"}},
		"steps[0].params.a: parameter a is true, want a whole number": {Params: needed, Spec: Spec{Steps: []Step{
			{Name: "s", Params: map[string]json.RawMessage{"a": json.RawMessage("true"), "own": json.RawMessage("1")}, Spec: Spec{Handler: "h"}}}}},
		"params: they are either defaults or declared": {Params: param.Params{Defaults: map[string]json.RawMessage{"a": json.RawMessage("1")}, Declared: needed.Declared}, Spec: Spec{Handler: "h"}},
	} {
		j.Name = "j"
		if err := j.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

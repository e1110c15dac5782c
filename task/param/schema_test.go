package param

import (
	"encoding/json"
	"strings"
	"testing"

	"millrace/task/value"
)

// A schema is held exactly: with all digits of numbers, and with all keywords.
func TestSchema(t *testing.T) {
	for _, c := range []struct{ schema, is, want string }{ // want is part of the refusal; "" for none
		{`true`, `1`, ""}, {`false`, `1`, "nothing is allowed"},
		{`{"const":9007199254740993}`, `9007199254740993`, ""}, {`{"const":9007199254740993}`, `9007199254740992`, "9007199254740992 is not 9007199254740993"},
		{`{"enum":[1,"a"]}`, `1.0`, ""}, {`{"enum":[1,"a"]}`, `"1"`, `is not one of [1,"a"]`},
		{`{"minimum":9007199254740993}`, `9007199254740992`, "at least 9007199254740993"}, {`{"maximum":9007199254740993}`, `9007199254740994`, "at most"},
		{`{"exclusiveMinimum":1}`, `1.0`, "above 1"}, {`{"exclusiveMaximum":0.3}`, `0.30`, "below 0.3"}, {`{"exclusiveMaximum":0.3}`, `0.29999999999999999999`, ""},
		{`{"multipleOf":0.01}`, `19.99`, ""}, {`{"multipleOf":2}`, `9007199254740993`, "a multiple of 2"}, {`{"minimum":1}`, `"x"`, ""},
		{`{"type":"integer"}`, `1e3`, ""}, {`{"type":"integer"}`, `1.5`, "of type"}, {`{"type":["null","boolean"]}`, `null`, ""}, {`{"type":["null","boolean"]}`, `0`, "of type"},
		{`{"minLength":2,"maxLength":3}`, `"äö"`, ""}, {`{"minLength":2}`, `"ä"`, "1 characters"}, {`{"pattern":"^a"}`, `"ba"`, "does not match ^a"},
		{`{"items":{"type":"string"}}`, `["a",1]`, "[1]: 1 is not of type"}, {`{"prefixItems":[true],"items":false}`, `[1]`, ""}, {`{"prefixItems":[true],"items":false}`, `[1,2]`, "[1]: nothing"},
		{`{"contains":{"const":1}}`, `[2]`, "contains"}, {`{"contains":{"const":1},"minContains":0}`, `[2]`, ""}, {`{"contains":{"const":1},"maxContains":1}`, `[1,1.0]`, "2 values"},
		{`{"uniqueItems":true}`, `[1,1.0]`, "1 is there twice"}, {`{"uniqueItems":true}`, `[1,"1",[1]]`, ""}, {`{"minItems":1}`, `[]`, "at least 1"},
		{`{"required":["a"]}`, `{"b":1}`, `"a" is missing`}, {`{"properties":{"a":{"type":"integer"}},"additionalProperties":false}`, `{"a":1,"b":2}`, "b: nothing"},
		{`{"patternProperties":{"^x":{"type":"null"}}}`, `{"xy":1}`, "xy: 1 is not"}, {`{"propertyNames":{"maxLength":1}}`, `{"ab":1}`, `field "ab"`}, {`{"maxProperties":1}`, `{"a":1,"b":2}`, "2 fields"},
		{`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, `beside "a"`}, {`{"dependentSchemas":{"a":{"required":["b"]}}}`, `{"a":1}`, `"b" is missing`},
		{`{"allOf":[{"minimum":1},{"maximum":2}]}`, `3`, "at most 2"}, {`{"anyOf":[{"minimum":5},{"const":1}]}`, `1`, ""}, {`{"anyOf":[{"minimum":5},{"const":1}]}`, `2`, "anyOf"},
		{`{"oneOf":[{"minimum":1},{"minimum":2}]}`, `3`, "2 schemas of its oneOf"}, {`{"not":{"const":1}}`, `1.0`, "its not excludes"},
		{`{"if":{"type":"string"},"then":{"minLength":1},"else":{"const":0}}`, `""`, "at least 1"}, {`{"if":{"type":"string"},"then":{"minLength":1},"else":{"const":0}}`, `0`, ""},
		{`{"anyOf":[{"properties":{"a":true}}],"unevaluatedProperties":false}`, `{"a":1}`, ""}, {`{"anyOf":[{"properties":{"a":true}}],"unevaluatedProperties":false}`, `{"b":1}`, "b: nothing"},
		{`{"prefixItems":[true],"unevaluatedItems":{"const":1}}`, `[5,2]`, "[1]: 2 is not 1"},
	} {
		schema, bad := value.Decode([]byte(c.schema))
		is, worse := value.Decode([]byte(c.is))
		if bad != nil || worse != nil || validSchema(schema) != nil {
			t.Fatalf("%s, %s: %v, %v, %v", c.schema, c.is, bad, worse, validSchema(schema))
		}
		if err := hold(schema, is); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: %v, want %q", c.is, c.schema, err, c.want)
		}
	}
	for text, want := range map[string]string{
		`1`: "is no schema", `{"minumum":1}`: `"minumum" is no keyword`, `{"items":{"$ref":"#"}}`: "items: $ref refers to another schema", `{"minimum":"1"}`: "minimum: want a number",
		`{"multipleOf":0}`: "above 0", `{"minLength":1.5}`: "whole number", `{"type":"int"}`: "type: want one of", `{"pattern":"("}`: "no regular expression", `{"items":[true]}`: "is no schema",
		`{"properties":{"a":{"type":5}}}`: "properties: a: type", `{"allOf":[]}`: "list of schemas", `{"required":"a"}`: "list of names", `{"uniqueItems":1}`: "true or false", `{"patternProperties":{"(":true}}`: "no regular expression",
		`{"dependentRequired":{"a":"b"}}`: "lists of names", `{"title":1}`: "want text", `{"enum":1}`: "want a list",
	} {
		schema, err := value.Decode([]byte(text))
		if err == nil {
			err = validSchema(schema)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the schema %s: %v, want %q", text, err, want)
		}
	}
}

// What a job declares of numbers holds for all their digits, and comes back as it was written.
func TestDeclaredNumbers(t *testing.T) {
	for _, c := range []struct{ declared, typed, want, refused string }{
		{`{"name":"id","type":"integer","enum":[9007199254740993]}`, "9007199254740993", "9007199254740993", ""},
		{`{"name":"id","type":"integer","enum":[9007199254740993]}`, "9007199254740992", "", "parameter id is 9007199254740992, want 9007199254740993"},
		{`{"name":"id","type":"integer","min":9007199254740993,"max":9007199254740995}`, "9007199254740996", "", "parameter id is 9007199254740996, want a whole number from 9007199254740993 to 9007199254740995"},
		{`{"name":"id","type":"integer","min":9007199254740993}`, "9007199254740992", "", "at least 9007199254740993"},
		{`{"name":"id","type":"number","max":0.3}`, "0.30000000000000001", "", "at most 0.3"},
		{`{"name":"id","type":"number"}`, "1.50", "1.50", ""}, {`{"name":"id","type":"integer"}`, "1.0", "1", ""}, {`{"name":"id","type":"integer"}`, "1e3", "1000", ""},
		{`{"name":"id","type":"integer"}`, "1e30", "1" + strings.Repeat("0", 30), ""}, {`{"name":"id","type":"integer"}`, "1.5", "", "want a whole number"}, {`{"name":"id","type":"integer"}`, "1e9999", "", "want a whole number"},
		{`{"name":"id","enum":[1]}`, "1.0", "1.0", ""}, {`{"name":"id","type":"integer","schema":{"multipleOf":2}}`, "9007199254740993", "", "is not a multiple of 2"},
	} {
		var d Param
		if err := json.Unmarshal([]byte(c.declared), &d); err != nil {
			t.Fatal(err)
		}
		if back, err := json.Marshal(d); err != nil || string(back) != c.declared {
			t.Errorf("%s is written %s, %v", c.declared, back, err)
		}
		p := Params{Declared: []Param{d}}
		if wrong := p.Validate(); len(wrong) > 0 {
			t.Fatal(wrong)
		}
		set, wrong := p.Read(nil, map[string]string{"id": c.typed})
		switch {
		case c.refused == "" && (len(wrong) > 0 || string(set["id"]) != c.want):
			t.Errorf("%s with %s is %s, %v; want %s", c.declared, c.typed, set["id"], wrong, c.want)
		case c.refused != "" && (len(wrong) != 1 || !strings.Contains(wrong[0].Error(), c.refused)):
			t.Errorf("%s with %s: %v, want %q", c.declared, c.typed, wrong, c.refused)
		}
	}
	d := Params{Declared: []Param{{Name: "n", Type: Integer, Default: json.RawMessage("1e2")}}}
	if got := d.Values()["n"]; string(got) != "100" {
		t.Errorf("the default 1e2 is given as %s", got)
	}
}

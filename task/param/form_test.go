package param_test

import (
	"encoding/json"
	"testing"

	"millrace/task/param"
	"millrace/task/value"
)

// What the schema of a job's parameters allows is what a submission may set.
func TestSchema(t *testing.T) {
	t.Parallel()
	for declared, want := range map[string]string{
		`{}`:             `{"additionalProperties":true,"properties":{},"required":[],"type":"object"}`,
		`{"depth":3}`:    `{"additionalProperties":true,"properties":{"depth":{"default":3}},"required":[],"type":"object"}`,
		`[{"name":"a"}]`: `{"additionalProperties":false,"properties":{"a":{}},"required":["a"],"type":"object"}`,
		`[{"name":"n","title":"T","description":"D","type":"integer","min":1,"max":9,"default":2}]`: `{"additionalProperties":false,"properties":{"n":{"default":2,"description":"D","maximum":9,"minimum":1,"title":"T","type":"integer"}},"required":[],"type":"object"}`,
		`[{"name":"s","type":"string","enum":["x","y"],"pattern":"^.$","max":1,"optional":true}]`:   `{"additionalProperties":false,"properties":{"s":{"enum":["x","y"],"maxLength":1,"pattern":"^.$","type":"string"}},"required":[],"type":"object"}`,
		`[{"name":"l","type":"array","min":1,"schema":{"items":{"type":"string"}}}]`:                `{"additionalProperties":false,"properties":{"l":{"allOf":[{"items":{"type":"string"}}],"minItems":1,"type":"array"}},"required":["l"],"type":"object"}`,
		`[{"name":"key","secret":true}]`: `{"additionalProperties":false,"properties":{"key":{"additionalProperties":false,"properties":{"file":{"description":"the path of a file on the node that holds the secret","type":"string"}},"required":["file"],"type":"object"}},"required":["key"],"type":"object"}`,
	} {
		var p param.Params
		if err := json.Unmarshal([]byte(declared), &p); err != nil {
			t.Fatal(err)
		}
		if got, err := value.JSON(p.Schema()); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v\nwant %s", declared, got, err, want)
		}
	}
}

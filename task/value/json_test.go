package value

import (
	"encoding/json"
	"testing"
)

// Texts stay as they were typed, also within JSON that is passed on.
func TestJSON(t *testing.T) {
	is := map[string]any{"a": "x&<y>\n", "raw": json.RawMessage(`{ "b" : "p&q\u0026" }`)}
	if got, err := JSON(is); err != nil || string(got) != `{"a":"x&<y>\n","raw":{"b":"p&q\u0026"}}` {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := Indented(is); err != nil || string(got) != "{\n  \"a\": \"x&<y>\\n\",\n  \"raw\": {\n    \"b\": \"p&q\\u0026\"\n  }\n}" {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := JSON(func() {}); err == nil {
		t.Errorf("%s", got)
	}
}

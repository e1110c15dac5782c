package param

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Whoever may have a job file checked, or submit a task, cannot keep a processor busy with it.
func TestCost(t *testing.T) {
	many := `{"items":{"allOf":[{"minLength":1}` + strings.Repeat(`,{"minLength":1}`, 8000) + `]}}`
	deep := `{"allOf":[` + strings.Repeat(`{"items":{"allOf":[`, 300) + `true` + strings.Repeat(`]}}`, 300) + `]}`
	list := "[" + strings.Repeat(`"a",`, 200_000) + `"a"]`
	for _, c := range []struct{ name, declared, value, want string }{
		{"a schema of 8,000 parts", `{"name":"p","type":"array","schema":` + many + `}`, "", "schema has"},
		{"a deep schema", `{"name":"p","schema":` + deep + `}`, "", "parts"},
		{"a long pattern", `{"name":"p","type":"string","pattern":"` + strings.Repeat("a", 2000) + `"}`, "", "pattern has 2000 bytes"},
		{"a short pattern that is dear", `{"name":"p","type":"string","pattern":"((a?){0,30}){0,30}b"}`, `"` + strings.Repeat("a", 500_000) + `"`, "at most"},
		{"a list", `{"name":"p","type":"array","schema":{"items":{"allOf":[` + strings.Repeat(`{"minLength":1},`, 100) + `true]}}}`, list, "at most"},
		{"a list without a schema", `{"name":"p","type":"array"}`, list, ""},
		{"an address", `{"name":"p","type":"string","pattern":"^https?://"}`, `"https://` + strings.Repeat("a", 100_000) + `"`, ""},
	} {
		var d Param
		if err := json.Unmarshal([]byte(c.declared), &d); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		var err error
		if wrong := (&Params{Declared: []Param{d}}).Validate(); len(wrong) > 0 {
			err = fmt.Errorf("%v", wrong)
		} else if c.value != "" {
			err = d.Check(json.RawMessage(c.value))
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if took := time.Since(begun); took > 5*time.Second { // a starved machine
			t.Errorf("%s took %v", c.name, took)
		}
	}
}

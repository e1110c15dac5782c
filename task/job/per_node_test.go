package job

import (
	"fmt"
	"testing"

	"millrace/task/limit"
)

func TestPerNodeValidates(t *testing.T) {
	for name, c := range map[string]struct {
		per  limit.PerNodes
		want string
	}{
		"right":    {limit.PerNodes{{Max: 1, Key: "{params.x}"}}, "<nil>"},
		"none":     {limit.PerNodes{{}}, "per_node.max is missing: how many may run on one node"},
		"negative": {limit.PerNodes{{Max: 1}, {Max: -1}}, "per_node[1].max is -1, want 1 or more"},
		"a key":    {limit.PerNodes{{Max: 1, Key: "{x}"}}, `per_node.key is "{x}", want text with {params.NAME}, {labels.NAME} or {queue} in it`},
		"many":     {make(limit.PerNodes, 9), "per_node has 9 entries, want at most 8"},
	} {
		if got := fmt.Sprint((&Spec{Handler: "h", PerNode: c.per}).Validate()); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

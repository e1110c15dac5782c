package job

import (
	"encoding/json"
	"strings"
	"testing"
)

// What an earlier version has stored is read and runs as it is; stored again it is refused.
func TestStoredByEarlierVersions(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":"j","run":{"argv":["x"]},"labels":{"a":"x,y"}}`:                                                                                  "labels: the label a has the value",
		`{"name":"j","run":{"argv":["x"]},"labels":{"c,d":"e"}}`:                                                                                  `labels: the label "c,d"`,
		`{"name":"j","run":{"argv":["x"]},"place":{"queue":"q"}}`:                                                                                 "place.queue is for the nodes that place chooses",
		`{"name":"j","steps":[{"name":"a","run":{"argv":["x"]},"place":{"queue":"q"}}]}`:                                                          "steps[0].place.queue",
		`{"name":"j","run":{"argv":["x"]},"params":[{"name":"p","type":"string","optional":true,"pattern":"` + strings.Repeat("a", 2000) + `"}]}`: "pattern has 2000 bytes",
	} {
		var j Job
		if err := json.Unmarshal([]byte(text), &j); err != nil {
			t.Fatal(err)
		}
		if err := j.ValidateStored(); err != nil {
			t.Errorf("%.80s cannot be read: %v", text, err)
		}
		if err := j.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", text, err, want)
		}
	}
}

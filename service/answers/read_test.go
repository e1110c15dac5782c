package answers

import (
	"strings"
	"testing"

	"millrace/task/birth"
)

// Nothing in a request is lost without a word: no field of a bound, no second value of a parameter,
// and no zero.
func TestRequestsLoseNothing(t *testing.T) {
	for body, want := range map[string]string{
		`{"job":"a","concurrency":{"max":1,"kye":"x"}}`:                        `"kye" in concurrency`,
		`{"job":"a","rate":[{"limit":1,"per":"1m","brust":3}]}`:                `"brust" in rate[0]`,
		`{"job":"a","budget":{"starts":5,"peroid":"day"}}`:                     `"peroid" in budget`,
		`{"job":"a","per_node":{"max":1,"x":1}}`:                               `"x" in per_node`,
		`{"spec":{"run":{"argv":["true"]},"concurrency":{"max":1,"kye":"x"}}}`: `"kye" in spec.concurrency`,
		`{"job":"a","params":{"i":1,"i":2}}`:                                   "params.i is there twice",
		`{"job":"a","priority":0}`:                                             "priority is 0",
		`{"job":"a","concurrency":{"max":0}}`:                                  "concurrency.max is 0",
		`{"spec":{"timeout":{"run":"0s"}}}`:                                    "spec.timeout.run is 0s",
		`{"job":"a","per_node":1}`:                                             ": per_node is a number",
		`{"job":"a","retries":0,"delay":"0s"}`:                                 "",
	} {
		_, err := read[birth.Submission]([]byte(body))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

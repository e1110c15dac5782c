package view

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/task"
)

var queryNoon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestParse(t *testing.T) {
	for text, want := range map[string]Filter{
		"":                            {},
		"  ":                          {},
		"refused":                     {Text: "refused"},
		`"connection refused"`:        {Text: "connection refused"},
		"connection refused":          {Text: "connection refused"},
		`"state:error"`:               {Text: "state:error"},
		"state:error,abnormal":        {States: []task.State{task.Error, task.Abnormal}},
		"job:backup queue:low boom":   {Job: "backup", Queue: "low", Text: "boom"},
		`node:w3 job:"a b"`:           {Node: "w3", Job: "a b"},
		"label:env=prod label:a=":     {Labels: map[string]string{"env": "prod", "a": ""}},
		"priority:8,9 is:dead":        {Priorities: []int{8, 9}, Dead: true},
		"since:2h until:11:00":        {Since: queryNoon.Add(-2 * time.Hour), Until: queryNoon.Add(-time.Hour)},
		"is:suspect schedule:n":       {Schedule: "n", Doubted: true},
		"step:load is:dead":           {Step: "load", Dead: true},
		"is:root batch:01a id:9g5fav": {Roots: true, Batch: "01A", IDPart: "9G5FAV"},
		`result.rows:7 result.a.b:c`:  {Results: map[string]string{"rows": "7", "a.b": "c"}},
		`record.n:7`:                  {Records: map[string]string{"n": "7"}},
		`param.customer:acme param.n:3 param.a.b:"x y"`: {Params: map[string]string{"customer": "acme", "n": "3", "a.b": "x y"}},
		`unclosed "quote here`:                          {Text: "unclosed quote here"},
	} {
		if got, err := ParseFilter(text, queryNoon); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestParseSaysWhere(t *testing.T) {
	for text, want := range map[string]string{
		"job:a sate:error":    `"sate:error" at 7: there is no key sate; do you mean state?`,
		"xyzzy:1":             "there are state, job",
		"state:walking":       `no state is called "walking"`,
		"state:eror":          `no state is called "eror"; do you mean error?`,
		"state:error,endde":   `no state is called "endde"; do you mean ended?`,
		"param:a=b":           "want param.NAME:value",
		"result:7":            "want result.NAME:value",
		"record:7":            "want record.NAME:value",
		"param.:b":            "there is no key param.",
		"param.a:1 param.a:2": "param.a is there twice",
		"job:a job:b":         "job is there twice",
		"job:":                "nothing stands behind the colon",
		"label:a":             "want label:name=value",
		"priority:high":       `"high" is no priority`,
		"priority:99":         "99",
		"since:yesterday":     "2h, 7d",
		"id:abc":              "at least 6",
		"is:deed":             "do you mean dead?",
		"-queue:low":          "do you mean queue?",
		"text http://a.b/c?":  "Quotes make it text",
	} {
		if _, err := ParseFilter(text, queryNoon); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is refused with %v, want %q", text, err, want)
		}
	}
}

// Each key is known, and its example is valid.
func TestKeys(t *testing.T) {
	for _, k := range QueryKeys {
		if _, err := ParseFilter(k.Example, queryNoon); err != nil || !strings.HasPrefix(k.Example, k.Name+":") {
			t.Errorf("%s: %v", k.Example, err)
		}
	}
}

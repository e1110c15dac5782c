package answers

import (
	"slices"
	"strings"
	"testing"

	"millrace/events/jet/rights"
)

// Every verb has an access and an endpoint.
func TestEndpointsAreClassified(t *testing.T) {
	var served []rights.Verb
	for _, e := range endpoints {
		if e.Verb.Access() == "" {
			t.Errorf("nobody says what %s is for: declare it in events/jet/rights/verbs.go", e.Verb)
		}
		if e.About == "" || slices.Contains(served, e.Verb) {
			t.Errorf("%s says nothing of itself, or is there twice", e.Verb)
		}
		served = append(served, e.Verb)
	}
	for _, v := range rights.Verbs(rights.Reading, rights.Owning, rights.Answering, rights.Submitting, rights.Operating) {
		if !slices.Contains(served, v) {
			t.Errorf("nobody answers %s", v)
		}
	}
}

// A request with a field that there is none of learns which there are.
func TestUnknownFieldNamesTheOthers(t *testing.T) {
	t.Parallel()
	_, err := read[taskRequest]([]byte(`{"id":"x","parms":{}}`))
	if want := `there is no field "parms"; it takes id`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

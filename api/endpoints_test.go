package api

import (
	"slices"
	"testing"

	"millrace/jet"
)

// Whatever the service can be asked for is classified, and all that is classified can be asked for.
func TestEndpointsAreClassified(t *testing.T) {
	var served []jet.Verb
	for _, e := range endpoints {
		if e.verb.Access() == "" {
			t.Errorf("nobody says what %s is for: add it to the table of verbs in jet/verbs.go", e.verb)
		}
		if e.about == "" || slices.Contains(served, e.verb) {
			t.Errorf("%s says nothing of itself, or is there twice", e.verb)
		}
		served = append(served, e.verb)
	}
	for _, v := range jet.Verbs(jet.Reading, jet.Submitting, jet.Operating) {
		if !slices.Contains(served, v) {
			t.Errorf("nobody answers %s", v)
		}
	}
}

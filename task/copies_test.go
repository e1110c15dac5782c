package task

import "testing"

func TestRestores(t *testing.T) {
	text, other := []byte(`{"n":1}`), []byte(`{"n":2}`)
	is := Definition{Edition: Edition{Revision: 3, Text: text}}
	gone := Definition{Edition: Edition{Revision: 3}}
	never := Definition{}
	for name, c := range map[string]struct {
		d            Definition
		copy         Copied
		anew, byHand bool
	}{
		"as it should be":           {is, Copied{true, text, 3}, false, false},
		"put by hand, but the same": {is, Copied{true, text, 0}, false, false},
		"changed by hand":           {is, Copied{true, other, 0}, true, true},
		"of this revision, changed": {is, Copied{true, other, 3}, true, true},
		"late":                      {is, Copied{true, other, 2}, true, false},
		"never made":                {is, Copied{}, true, false},
		"removed by hand":           {is, Copied{true, nil, 0}, true, true},
		"removed by us, then late":  {is, Copied{true, nil, 2}, true, false},
		"removed, and late":         {gone, Copied{true, text, 2}, true, false},
		"removed":                   {gone, Copied{true, nil, 3}, false, false},
		"removed by hand as well":   {gone, Copied{true, nil, 0}, false, false},
		"back by hand":              {gone, Copied{true, text, 0}, true, true},
		"somebody's own":            {never, Copied{true, text, 0}, true, true},
		"left of a lost log":        {never, Copied{true, text, 2}, false, false},
		"nothing":                   {never, Copied{}, false, false},
	} {
		if anew, byHand := c.d.Restores(c.copy); anew != c.anew || byHand != c.byHand {
			t.Errorf("%s: written anew %t, by hand %t; want %t, %t", name, anew, byHand, c.anew, c.byHand)
		}
	}
}

func TestGatherIsBounded(t *testing.T) {
	var e CopiesRestored
	for range 3 {
		e = e.Gather(make([]Restored, MaxRestored/2+1)...)
	}
	if len(e.Copies) != MaxRestored || e.More != 3*(MaxRestored/2+1)-MaxRestored {
		t.Errorf("%d are named and %d counted", len(e.Copies), e.More)
	}
}

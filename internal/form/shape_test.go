package form

import "testing"

func TestShape(t *testing.T) {
	type leaf struct {
		A string `json:"a"`
	}
	type tree struct {
		Leaf  leaf            `json:"leaf,omitzero"`
		Trees []*tree         `json:"trees"`
		By    map[name]*shade `json:"by"`
	}
	const want = "{leaf,omitzero {a string;};trees []*tree;by map[string]*shade;}"
	if got := Shape[tree](); got != want {
		t.Errorf("the shape is %s, want %s", got, want)
	}
	if got := Shape[within](); got != "{inner,omitzero string;when,omitzero Time;}" {
		t.Errorf("the shape is %s", got)
	}
}

package job

import (
	"slices"
	"testing"
)

// AllFiles includes files that only a step or a handler needs.
func TestAllFiles(t *testing.T) {
	f := func(name string) *Files { return &Files{Bundle: name} }
	s := &Spec{
		Files: f("own"), Steps: []Step{{Spec: Spec{Files: f("step")}}, {}},
		On: &Handlers{Failure: &Step{Spec: Spec{Files: f("handler")}}},
	}
	var got []string
	for _, one := range s.AllFiles() {
		got = append(got, one.Bundle)
	}
	if !slices.Equal(got, []string{"own", "step", "handler"}) || (*Spec)(nil).AllFiles() != nil {
		t.Errorf("the files are %v", got)
	}
}

package job

import (
	"testing"

	"millrace/task/placement"
)

func TestPlaceValidate(t *testing.T) {
	many := make([]string, MaxPlaceNodes+1)
	for want, p := range map[string]Place{
		"":                             {Mode: PlaceNodes, Nodes: []string{"a", "b"}, NoNode: NoNodeWait, Queue: "q"},
		"leave place.labels and place": {Nodes: []string{"a"}, Each: true, Avoid: []string{"b"}},
		"none are named":               {Each: true},
		"place.count is -1":            {Count: -1},
		"place.count takes so many":    {Mode: PlaceAll, Count: 2},
		"set place.count":              {Spread: "rack"},
		`place.late is "never"`:        {Mode: PlaceAll, Late: "never"},
		"place.late is for":            {Late: LateIgnore},
		"place.labels: mem":            {Labels: placement.Selector{{Key: "mem", Op: placement.OpGreater, Values: []string{"much"}}}},
		`place.avoid: "b" is named`:    {Avoid: []string{"b", "b"}},
		`place.mode is "some"`:         {Mode: "some"},
		"name at least one node":       {Mode: PlaceNodes},
		"leave one of them out":        {Mode: PlaceAny, Nodes: []string{"a"}},
		`place.nodes: node name "@a"`:  {Nodes: []string{"@a"}},
		`"a" is named twice`:           {Nodes: []string{"a", "b", "a"}},
		"at most 64":                   {Nodes: many},
		`place.no_node is "pray"`:      {Nodes: []string{"a"}, NoNode: "pray"},
		"it chooses none":              {NoNode: NoNodeWait},
		`place.queue: queue name "@a"`: {Nodes: []string{"a"}, Queue: "@a"},
	} {
		s := Spec{Handler: "x", Place: p}
		checkError(t, want, s.Validate(), want)
	}
	for _, p := range []Place{
		{Mode: PlaceAll, Labels: placement.Selector{{Key: "gpu", Op: placement.OpExists}}, Avoid: []string{"a"}, Late: LateInclude, NoNode: NoNodeFail},
		{Mode: PlaceAll, Nodes: []string{"a", "b"}},
		{Nodes: []string{"a"}, Labels: placement.Selector{{Key: "gpu", Op: placement.OpExists}}, Avoid: []string{"b"}, NoNode: NoNodeWait},
		{Nodes: []string{"a"}, Each: true},
		{Count: 3, Spread: "rack"},
		{Labels: placement.Selector{{Key: "zone", Op: placement.OpIn, Values: []string{"eu"}}}, NoNode: NoNodeFallback},
	} {
		s := Spec{Handler: "x", Place: p}
		checkError(t, "valid", s.Validate(), "")
	}
}

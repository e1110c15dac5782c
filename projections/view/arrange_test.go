package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"millrace/task"
	"millrace/task/birth"
)

func TestArrange(t *testing.T) {
	const whole, other task.ID = "01JD6Z8V3M0QK4T7W2X9Y5ABCD", "01JD6Z8V3M0QK4T7W2X9Y5ABCE"
	names := []string{"fetch", "transform", "load"}
	parent := task.Task{ID: whole, Children: &task.Children{Names: names}}
	child := func(of task.ID, step string) task.Task {
		return task.Task{ID: birth.ChildID(of, step[strings.LastIndex(step, "/")+1:]), Work: task.Work{Parent: of, Step: step}}
	}
	list := child(whole, "load")
	list.Children = &task.Children{Names: []string{"0", "1", "10", "2"}}
	a, b := task.Task{ID: "01A", Work: task.Work{Parent: "01B"}}, task.Task{ID: "01B", Work: task.Work{Parent: "01A"}}
	for _, c := range []struct {
		tasks []task.Task
		want  string
	}{
		{nil, ""},
		{[]task.Task{child(whole, "load"), {ID: other}, parent, child(whole, "fetch"), child(whole, "transform")}, "0 " + string(other) + "|0 " + string(whole) + "|1 fetch|1 transform|1 load"},
		{[]task.Task{child(list.ID, "load/2"), parent, child(list.ID, "load/10"), list, child(list.ID, "load/1")}, "0 " + string(whole) + "|1 load|2 load/1|2 load/10|2 load/2"},
		{[]task.Task{{ID: other}, child(whole, "10"), child(whole, "9"), {ID: "01Z"}, child(whole, "9/1")}, "0 " + string(other) + "|0 9|0 9/1|0 10|0 01Z"},
		{[]task.Task{a, b}, "0 01B|1 01A"},
	} {
		var got []string
		for _, r := range Arrange(slices.Clone(c.tasks)) {
			name := r.Task.Step
			if name == "" {
				name = string(r.Task.ID)
			}
			got = append(got, fmt.Sprint(r.Depth, " ", name))
		}
		if text := strings.Join(got, "|"); text != c.want {
			t.Errorf("got  %s\nwant %s", text, c.want)
		}
	}
}

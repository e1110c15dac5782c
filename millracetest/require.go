package millracetest

import (
	"fmt"
	"reflect"
	"strings"
	"testing/synctest"

	"millrace"
	"millrace/task"
)

// RequireSubmitted returns the one task of a function that was submitted with want, by whatever and however it fares.
// The test fails at once if there is none, or more than one.
func RequireSubmitted[In, Out any](w *World, f *millrace.Function[In, Out], want In) *millrace.Run[Out] {
	w.t.Helper()
	all, others := submitted(w, f, want)
	switch len(all) {
	case 1:
		return f.Run(w.App, all[0])
	case 0:
		w.t.Fatalf("millracetest: no task of %s was submitted with %+v; %s", millrace.NameOf(f), want, others)
	default:
		w.t.Fatalf("millracetest: %d tasks of %s were submitted with %+v", len(all), millrace.NameOf(f), want)
	}
	return nil
}

// RequireNotSubmitted fails the test at once if a task of a function was submitted with in.
func RequireNotSubmitted[In, Out any](w *World, f *millrace.Function[In, Out], in In) {
	w.t.Helper()
	if all, _ := submitted(w, f, in); len(all) > 0 {
		w.t.Fatalf("millracetest: task %s of %s was submitted with %+v", all[0], millrace.NameOf(f), in)
	}
}

// submitted lists the tasks of a function with these parameters, and says which others it has.
func submitted[In, Out any](w *World, f *millrace.Function[In, Out], want In) (all []millrace.ID, others string) {
	w.t.Helper()
	var texts []string
	synctest.Wait() // until the model has what the log has
	w.house.tasks(func(t *task.Task) bool {
		if t.Spec.Handler != millrace.NameOf(f) {
			return true
		}
		in, err := f.Input(*t)
		switch {
		case err == nil && reflect.DeepEqual(in, want):
			all = append(all, t.ID)
		case err != nil:
			texts = append(texts, err.Error())
		default:
			texts = append(texts, fmt.Sprintf("%+v", in))
		}
		return true
	})
	if len(texts) == 0 {
		return all, "there is none of this function"
	}
	return all, "there are those with " + strings.Join(texts, ", ")
}

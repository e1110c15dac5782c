package answers

import (
	"slices"
	"strings"
	"testing"

	"millrace/events/jet/definitions"
	"millrace/task/job"
)

// Jobs of which what they name can make no tasks are told: one of a circle, and one that follows nobody.
func TestUnfollowed(t *testing.T) {
	t.Parallel()
	of := func(name string, on *job.Handlers) definitions.StoredJob {
		return definitions.StoredJob{Job: job.Job{Name: name, Spec: job.Spec{Handler: "h", On: on}}}
	}
	jobs := []definitions.StoredJob{
		of("c", &job.Handlers{Job: "a"}), of("a", &job.Handlers{Job: "b"}), of("b", &job.Handlers{Job: "c"}),
		of("beside", &job.Handlers{Job: "a"}), of("lost", &job.Handlers{Job: "gone"}), of("plain", nil),
		of("wrong", &job.Handlers{Subject: "x", When: "total > 1"}), of("right", &job.Handlers{Subject: "x", When: "payload.total > 1"}),
	}
	told := func(whole bool) (all []string) {
		for _, m := range unfollowed(jobs, whole) {
			all = append(all, m.ID+": "+m.What)
		}
		return all
	}
	want := []string{
		"a: it follows its own ends (a after b after c after a), so that these make no tasks",
		"lost: it follows the ends of job gone, which does not exist",
		"wrong: nothing makes tasks of it, for its condition is none (on.when: unknown name total",
	}
	begin := func(is, want string) bool { return strings.HasPrefix(is, want) }
	if got := told(true); !slices.EqualFunc(got, want, begin) {
		t.Errorf("told are %q", got)
	}
	if got := told(false); !slices.EqualFunc(got, slices.Delete(want, 1, 2), begin) {
		t.Errorf("if some jobs cannot be read, told are %q", got)
	}
}

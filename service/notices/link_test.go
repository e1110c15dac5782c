package notices

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
)

// TestWhatLinksAllow holds which links a notice has against the task that it is about, and who may approve it.
func TestWhatLinksAllow(t *testing.T) {
	waits := func(who ...string) *task.Task {
		return &task.Task{State: task.Held, Work: task.Work{Holds: []string{task.HoldSignal}, Spec: &job.Spec{Signal: &job.Signal{Who: who}}}}
	}
	for name, c := range map[string]struct {
		kind string
		of   *task.Task
		want string
	}{
		"an approval":                 {Waiting, waits(), "approve reject"},
		"one of certain people":       {Waiting, waits("ann"), ""},
		"one of these and of links":   {Waiting, waits("ann", "notice:on*"), "approve reject"},
		"one that was given":          {Waiting, &task.Task{State: task.Pending, Work: task.Work{Spec: &job.Spec{}}}, ""},
		"a failure":                   {Failure, &task.Task{State: task.Error}, "retry"},
		"what ended abnormally":       {Failure, &task.Task{State: task.Abnormal}, "retry"},
		"what runs again":             {Failure, &task.Task{State: task.Running}, ""},
		"what was late and has ended": {Overdue, &task.Task{State: task.Error}, ""},
	} {
		p := newPermit(c.kind, "oncall", c.of)
		if got := strings.Join(p.Do, " "); got != c.want || len(p.Do) > 0 && !p.Holds(c.of) {
			t.Errorf("%s: the links are %q, want %q", name, got, c.want)
		}
	}
}

// TestLinksAreWhatTheLogKnows sends a notice twice, as after a server was killed, to a webhook that says back what it
// got. The log has learned of both secrets before, and has neither; what it has opens the links until they are too old.
func TestLinksAreWhatTheLogKnows(t *testing.T) {
	of := &task.Task{ID: "01JD6Z8V3M0QK4T7W2X9Y5ABCD", State: task.Error, Seq: 12, Life: 9}
	notice := &task.Task{ID: task.DerivedID(of.ID, "a notice")}
	submission, err := Submission(notice.ID, noon, &Notice{To: "oncall", Kind: Failure, Task: of.ID})
	if err != nil {
		t.Fatal(err)
	}
	if notice.Params, err = json.Marshal(submission.Params); err != nil {
		t.Fatal(err)
	}
	notice.Spec, notice.Route = submission.Spec, "millrace-notices.5"
	var got []string
	to, _ := webhook(t, "/hook", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var is Message
		if err := json.Unmarshal(body, &is); err != nil || len(is.Actions) != 1 || !strings.Contains(is.Text, "Retry: "+is.Actions[0].Link) {
			t.Errorf("the webhook got %s: %v", body, err)
			return
		}
		got = append(got, is.Actions[0].Link)
		if d := notice.Durable; d == nil || len(d.Steps) != len(got) {
			t.Error("the log does not know the link when it goes out")
		}
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, strings.Repeat(is.Actions[0].Link+" ", 50))
	})
	to.Buttons = true
	s := &Sender{Link: "https://millrace.example/", Remember: func(_ context.Context, first int, steps []task.Step) error {
		if notice.Durable == nil {
			notice.Durable = &task.Durable{}
		}
		if first != len(notice.Durable.Steps) {
			t.Errorf("a step comes behind %d", first)
		}
		notice.Durable.Steps = append(notice.Durable.Steps, steps...)
		return nil
	}}
	for range 2 {
		m := message()
		m.of, m.to = of, "oncall"
		if err := s.allow(t.Context(), notice, to, m); err != nil {
			t.Fatal(err)
		}
		to.fill(m)
		err := m.hide(s.deliver(t.Context(), to, m))
		known, _ := json.Marshal(notice.Durable)
		if err == nil || !strings.Contains(err.Error(), "418") || strings.Contains(err.Error(), m.secret[:9]) || strings.Contains(string(known), m.secret) {
			t.Errorf("what is written down is %v, and %s", err, known)
		}
	}
	for _, link := range got {
		key, ours := strings.CutPrefix(link, "https://millrace.example/act/retry/")
		id, secret, err := LinkOf(key)
		if !ours || err != nil || id != notice.ID {
			t.Fatalf("%s is that of %s: %v", link, id, err)
		}
		p, err := Opens(notice, "retry", secret, noon.Add(linkFor-time.Second))
		if err != nil || p.Task != of.ID || p.By != "notice:oncall" || !p.Holds(of) {
			t.Errorf("it opens %+v: %v", p, err)
		}
		if _, err := Opens(notice, "retry", secret, noon.Add(linkFor)); !errors.Is(err, ErrLinkOver) {
			t.Errorf("after a week: %v", err)
		}
		if _, err := Opens(notice, "approve", secret, noon); !errors.Is(err, ErrNoLink) {
			t.Errorf("it approves, too: %v", err)
		}
		if _, err := Opens(&task.Task{ID: notice.ID, Work: task.Work{Spec: &job.Spec{Handler: "own"}}, Durable: notice.Durable}, "retry", secret, noon); !errors.Is(err, ErrNoLink) {
			t.Errorf("a task that is no notice opens it: %v", err)
		}
	}
	if len(got) != 2 || got[0] == got[1] {
		t.Errorf("the links are %v", got)
	}
	for _, other := range []task.Task{{State: task.Error, Life: 14}, {State: task.Error, Life: 9, Epoch: 13}, {State: task.Pending, Life: 9}, {State: task.Finished, Life: 9}} {
		if newPermit(Failure, "oncall", of).Holds(&other) {
			t.Errorf("it holds for %+v", other)
		}
	}
	for _, to := range []*Target{{Buttons: false}, {Buttons: true}} {
		m := message()
		if m.of, m.to = of, "oncall"; to.Buttons {
			m.of = nil // as of many causes
		}
		if err := s.allow(t.Context(), notice, to, m); err != nil || len(m.Actions) > 0 {
			t.Errorf("links are %v: %v", m.Actions, err)
		}
	}
	if is := (Action{"retry", "https://x/y", true}).String(); is != "<https://x/y|Retry>" {
		t.Errorf("in Slack it is %s", is)
	}
}

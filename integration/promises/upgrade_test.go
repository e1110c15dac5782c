package promises

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/integration/harness"
	"millrace/task"
)

// `upgrade check` says that this program may take over from itself, and what it finds that it could
// not go on with.
func TestUpgradeCheck(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.MayRepair("an attempt is forged that runs in no session")
	dev := p.Dev("--name", "here")
	c, js := p.Connect(), p.JetStream()
	p.Await(c, p.Submit("true"), task.Finished)
	waits := p.Submit("true", "--delay", "1h")
	p.Write("log.jsonl", p.Run("events", "export"))
	p.Run("incident", "export", "--around", string(waits), "span.mri")
	if r := p.Try("upgrade", "check", "--archive", "log.jsonl", "--archive", "span.mri"); r.Code != 0 || !strings.HasPrefix(r.Out, "Safe: ") {
		t.Fatalf("of this program itself: exit code %d\n%s%s", r.Code, r.Out, r.Errs)
	}

	fact := func(typ, more string) {
		subject := "mr.task." + string(waits)
		body := fmt.Sprintf(`{"type":%q,"id":"01JD6Z8V3M0QK4T7W2X9Y5ABCD","at":"2026-03-01T12:00:00Z","task":%q%s}`, typ, waits, more)
		if _, err := js.Publish(t.Context(), subject, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	fact("task.enlightened", "")
	fact("attempt.started", `,"attempt":1,"node":"n","session":"s","by":{"moon":"full"}`)
	fact("task.cancelled", `,"v":99`)
	if _, err := js.Publish(t.Context(), "mr.task.x", []byte("rubbish")); err != nil {
		t.Fatal(err)
	}
	files, err := js.Stream(t.Context(), "MR_FILES")
	if err != nil {
		t.Fatal(err)
	}
	cfg := files.CachedInfo().Config
	cfg.MaxMsgSize = 1024
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	p.Run("events", "export") // all of that is in the log
	r := p.Try("upgrade", "check", "-o", "json", "--archive", "log.jsonl")
	type check struct {
		Check, Status string
		Found         []string
	}
	var said struct {
		Safe    bool
		Summary string
		Checks  []check
	}
	if err := json.Unmarshal([]byte(r.Out), &said); err != nil || r.Code != 1 || said.Safe || !strings.HasPrefix(said.Summary, "Not safe: 1 event of a later version of the form. Take a program") {
		t.Fatalf("exit code %d, %v\n%s%s", r.Code, err, r.Out, r.Errs)
	}
	for name, want := range map[string][]string{
		"settings": {"ok"}, "definitions": {"ok"}, "log.jsonl": {"ok", "messages"}, "streams": {"unsafe", "MR_FILES has not the max_msg_size"},
		"forms": {"unsafe", "of the type task.enlightened", "of the type attempt.started with the field by.moon", "of a later version", "2 messages cannot be read"},
	} {
		i := slices.IndexFunc(said.Checks, func(is check) bool { return is.Check == name })
		for _, words := range want {
			if i < 0 || !strings.Contains(fmt.Sprint(said.Checks[i]), words) {
				t.Errorf("of %s it does not say %q:\n%s", name, words, r.Out)
			}
		}
	}

	log, err := js.Stream(t.Context(), "MR_LOG")
	if err != nil {
		t.Fatal(err)
	}
	cfg = log.CachedInfo().Config
	cfg.AllowRollup = true // as versions before this one made it
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if r := p.Try("upgrade", "check"); r.Code != 1 || !strings.HasPrefix(r.Out, "Not safe: the log has a form that single messages can erase") {
		t.Errorf("with a log of an older form: exit code %d\n%s%s", r.Code, r.Out, r.Errs)
	}
	dev.Stop()
}

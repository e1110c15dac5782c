package rights

import (
	"slices"
	"strings"
	"testing"
)

// Every verb has one of three kinds of access and a well-formed name.
func TestVerbs(t *testing.T) {
	t.Parallel()
	all := Verbs(Reading, Submitting, Operating)
	for i, v := range all {
		if noun, verb, ok := strings.Cut(string(v), "."); !ok || noun == "" || verb == "" || strings.Contains(verb, ".") || slices.Contains(all[:i], v) || v.Access() == "" {
			t.Errorf("%q is no noun and verb, or is there twice", v)
		}
		if caller, err := CallerOf(v.For("ada")); caller != "ada" || err != nil {
			t.Errorf("%s asks %q, %v", v.For("ada"), caller, err)
		}
	}
	if Verb("task.sumbit").Access() != "" {
		t.Error("a verb that is not there is for something")
	}
	for subject, want := range map[string]string{
		"mr.api.task.submit": "does not say who asks", "mr.api.health": "does not say who asks", "mr.api.a.b.task.submit": "does not say who asks", "mr.task.a.b.c": "does not say who asks",
		"mr.api.-a.task.get": "want 1 to 64", "mr.api.a@b.task.get": "want 1 to 64", "mr.api.*.task.get": "want 1 to 64", "mr.api.scheduler.task.get": "no user has it", "mr.api.server.task.get": "no user has it", "mr.api.worker.task.get": "no user has it",
	} {
		if _, err := CallerOf(subject); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", subject, err)
		}
	}
	for name, want := range map[string]string{"ada": "ada", "ada@example.org": "ada_example_org", "-x": "_x", "": "", "scheduler": "", "é": "__", strings.Repeat("a", 70): strings.Repeat("a", 64)} {
		if got := callerNamed(name); got != want {
			t.Errorf("%q asks as %q, want %q", name, got, want)
		}
	}
	for reply, want := range map[string]bool{"_INBOX.x": true, "_INBOX_ada.x": true, "mine": true, "": false, "$JS.API.STREAM.PURGE.MR_LOG": false, "mr.admit.job.x": false, "$SRV.PING": false} {
		if Answerable(reply) != want {
			t.Errorf("%s: answerable is %t", reply, !want)
		}
	}
}

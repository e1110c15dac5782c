package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/history/verify"
	"millrace/service/inspect"
	"millrace/task"
)

// The server verifies the log when asked, one run at a time; each finding leads to its task and its
// facts.
func TestVerify(t *testing.T) {
	t.Parallel()
	p := open(t)
	id := p.submit(command("date"))
	page, _ := p.get(200, "/verify")
	if !strings.Contains(page, "No run since this server started") || !strings.Contains(page, "one run at a time") || !strings.Contains(page, `action="./verify/do"`) {
		t.Errorf("it is not said that there was no run: %s", page)
	}
	p.press(400, "/verify/do", "from", "x")
	p.press(400, "/verify/do", "from", "3", "to", "2")
	if _, h := p.get(303, "/verify/do"); h.Get("Location") != "../verify" {
		t.Error("who only looks begins a run, or is led elsewhere")
	}
	// No loop serves the audits yet, so the run stays open.
	if _, h := p.press(303, "/verify/do"); h.Get("Location") != "../verify" {
		t.Errorf("who begins a run is led to %s", h.Get("Location"))
	}
	p.press(303, "/verify/do", "from", "2")
	page, _ = p.get(200, "/verify")
	if !strings.Contains(page, "A run is in progress") || !strings.Contains(page, "Asked for by ada.") || strings.Contains(page, `method="post"`) {
		t.Errorf("it is not said that a run goes on: %s", page)
	}
	// The result of an attempt that never began breaks a promise.
	now := p.client.Now()
	forged := &events.Fact{ID: events.NewID(now), At: now, Type: events.AttemptFinished, Task: id, Actor: hostile[0], Event: task.AttemptFinished{Attempt: 1, Epoch: 99, Result: json.RawMessage(`1`)}}
	if _, err := p.store.Append(t.Context(), forged, 0); err != nil {
		t.Fatal(err)
	}
	p.seen()
	ctx, stop := context.WithCancel(t.Context())
	err := p.audits.Serve(ctx, func(_ context.Context, from, to uint64, progress func(at, end uint64)) (*verify.Report, bool, error) {
		stop()
		return p.server.Desk.Verify(t.Context(), from, to, progress)
	}, p.client.Now)
	if err != nil {
		t.Fatal(err)
	}
	page, _ = p.get(200, "/verify")
	for _, want := range []string{"Last run: ", "broken.", "tasks/" + string(id), "events/2", "Promises", "I-1", `name="to"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q: %s", want, page)
		}
	}
	p.harmless("the page", page)
	if page, _ = p.get(200, "/verify?at=1"); strings.Contains(page, `method="post"`) {
		t.Error("the past has a button")
	}
	p.as(rights.Submitter)
	p.get(403, "/verify")
	p.press(403, "/verify/do")
}

// The page shows what a report says, whatever it contains.
func TestVerifyShown(t *testing.T) {
	t.Parallel()
	p := still(t)
	for _, text := range hostile {
		p.audits = inspect.New()
		if err := p.audits.Ask(text, 5, 90, p.client.Now()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		report := &verify.Report{From: 5, First: 5, Last: 60, Violations: 300, Findings: []verify.Finding{{Rule: verify.OneEpoch, What: text, Seqs: []uint64{7, 9}}},
			Rules: []verify.RuleReport{{Rule: verify.OneEpoch, Status: verify.StatusBroken, Violations: 300, Note: text, Promise: "p"}}, Poison: 1, PoisonSeqs: []uint64{8}}
		err := p.audits.Serve(ctx, func(context.Context, uint64, uint64, func(at, end uint64)) (*verify.Report, bool, error) {
			stop()
			return report, true, nil
		}, p.client.Now)
		if err != nil {
			t.Fatal(err)
		}
		page, _ := p.get(200, "/verify")
		p.harmless(fmt.Sprintf("a report of %.20q", text), page)
		for _, want := range []string{"300 promises are broken", "events/7", "events/8", "299 more", "Start another from #61", `value="61"`} {
			if !strings.Contains(page, want) {
				t.Fatalf("the page does not say %q: %s", want, page)
			}
		}
	}
}

package worker_test

import (
	"context"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/worker"
	"millrace/worker/claim"
)

func (w *world) label(id node.ID, labels map[string]*string) {
	w.Helper()
	if _, _, err := w.rec.DoNode(w.Context(), id, node.Label{Labels: labels}); err != nil {
		w.Fatal(err)
	}
}

func selector(w *world, text string) placement.Selector {
	w.Helper()
	s, err := placement.ParseSelector(text)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// A node runs the tasks whose selector matches it, and no others; and it follows a change of its
// labels.
func TestNodesPullByTheirLabels(t *testing.T) {
	inBubble(t, func(w *world) {
		quick := map[string]worker.Handler{"h": func(context.Context, task.Task) error { return nil }}
		w.start(worker.Config{Node: "a", Labels: map[string]string{"zone": "eu", "mem": "8"}}, quick)
		w.start(worker.Config{Node: "b", Labels: map[string]string{"zone": "us", "gpu": ""}}, quick)
		w.start(worker.Config{Node: "c", Labels: map[string]string{"zone": "eu", "mem": "64"}, Queues: []string{"other"}}, quick)
		for text, want := range map[string]string{"zone=eu": "a", "gpu": "b", "zone in (us,asia)": "b", "mem>=8": "a", "!gpu": "a", "node=b": "b"} {
			id := w.submit(job.Spec{Place: job.Place{Labels: selector(w, text)}})
			if now := w.ended(id); now.Node != want {
				t.Errorf("%s: it ran on %s, want %s", text, now.Node, want)
			}
		}
		avoids := w.submit(job.Spec{Place: job.Place{Avoid: []string{"a"}}})
		if now := w.ended(avoids); now.Node != "b" {
			t.Errorf("it ran on %s, which it avoids", now.Node)
		}

		waits := w.submit(job.Spec{Place: job.Place{Labels: selector(w, "mem>=16")}})
		pass(time.Minute)
		if now := w.task(waits); now.State != task.Pending {
			t.Fatalf("without a node that matches it is %s on %s", now.State, now.Node)
		}
		more := "32"
		w.label("a", map[string]*string{"mem": &more})
		pass(20 * time.Second) // the node is not told
		if now := w.task(waits); now.State != task.Finished || now.Node != "a" {
			t.Errorf("after the change it is %s on %q", now.State, now.Node)
		}
		w.label("a", map[string]*string{"mem": nil, "zone": nil})
		pass(20 * time.Second)
		for _, text := range []string{"mem>=16", "zone=eu"} {
			id := w.submit(job.Spec{Place: job.Place{Labels: selector(w, text)}})
			pass(time.Minute)
			if now := w.task(id); now.State != task.Pending {
				t.Errorf("%s: it is %s on %s, which has lost the label", text, now.State, now.Node)
			}
		}
	})
}

// A declaration is heard before a reader finds it: the node looks again at once, then less and less
// often.
func TestRouteHeardBeforeItIsFound(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.start(worker.Config{Node: "a", Labels: map[string]string{"gpu": ""}}, map[string]worker.Handler{"h": func(context.Context, task.Task) error { return nil }})
		tries := 0
		set(a.store, &a.also, func(routes []string) error {
			if tries++; len(routes) > 0 && tries <= 3 {
				return errBroken
			}
			return nil
		})
		id := w.submit(job.Spec{Place: job.Place{Labels: selector(w, "gpu")}})
		began := time.Now()
		if now := w.ended(id); now.Node != "a" || tries != 4 {
			t.Errorf("it ran on %q after %d tries", now.Node, tries)
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("it began after %v", took)
		}
		set(a.store, &a.also, func([]string) error { tries++; return errBroken })
		tries = 0
		w.submit(job.Spec{Place: job.Place{Labels: selector(w, "!fpga")}})
		pass(time.Minute)
		if tries < 50 || tries > 130 {
			t.Errorf("in vain it tried %d times in a minute, want one or two a second", tries)
		}
	})
}

// The claim holds the labels of that moment against the task: an offer that came by
// labels which the node has lost goes back.
func TestClaimChecksLabels(t *testing.T) {
	inBubble(t, func(w *world) {
		id := w.submit(job.Spec{Place: job.Place{Labels: selector(w, "gpu")}})
		offers, err := w.log.Offers(w.Context(), []string{w.task(id).Route.Queue()})
		if err != nil {
			t.Fatal(err)
		}
		labels := map[string]string{}
		p := claim.Protocol{Recorder: w.rec, Node: "a", Session: "s", Labels: func() (map[string]string, uint64) { return labels, 0 }}
		offer, err := offers.Next(w.Context())
		if err != nil {
			t.Fatal(err)
		}
		var k task.Task
		if mine, err := p.Claim(w.Context(), offer, &k); mine || err != nil {
			t.Fatalf("claimed without the label: %v, %v", mine, err)
		}
		w.wantFacts(id)
		labels["gpu"] = ""
		again, err := offers.Next(w.Context())
		if err != nil {
			t.Fatal(err)
		}
		if mine, err := p.Claim(w.Context(), again, &k); !mine || err != nil {
			t.Errorf("not claimed with the label: %v, %v", mine, err)
		}
	})
}

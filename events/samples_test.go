package events

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"millrace/node"
	"millrace/task"
)

// noon is when all samples happen; the nanoseconds must survive the wire.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

const (
	sampleFact  = "01JNA0FACT0000000000000000"
	sampleCause = "01JNA0CAVSE000000000000000"
	sampleTask  = task.ID("01JNA0TASK0000000000000000")
)

// full has a fact of each type with every field set.
func full() map[Type]Fact {
	exit := 3
	usage := &task.Usage{UserTime: task.Duration(1500 * time.Millisecond), SystemTime: task.Duration(20 * time.Millisecond), MaxMemory: 48 << 20}
	work := task.Work{
		Job: "thumbnail", Revision: 7,
		Spec: &task.Spec{
			Run:     &task.Run{Argv: []string{"convert", "--quality", "85", "a <b>.png"}, Dir: "/srv/images", Env: map[string]string{"LANG": "C.UTF-8"}, Stdin: task.StdinOpen},
			Timeout: task.Timeout{Pending: task.Duration(time.Hour), Run: task.Duration(90 * time.Second), Idle: task.Duration(30 * time.Second), Stop: task.Duration(5 * time.Second)},
			Retry: task.Retry{Max: 3, Backoff: task.BackoffLinear, Min: task.Duration(2 * time.Second), MaxDelay: task.Duration(time.Minute),
				Jitter: 0.5, On: []string{task.ReasonExit, task.ReasonNetwork}, NotOn: []string{task.ReasonMemory, "exit=64-78"}, AvoidNode: true, Budget: task.Duration(time.Hour)},
			Breaker: &task.Breaker{Failures: 5, Within: task.Duration(2 * time.Minute), Cooldown: task.Duration(time.Minute), HalfOpen: 2, OnOpen: task.OnOpenHold},
			Place:   task.Place{Mode: task.PlaceNodes, Nodes: []string{"w1", "w2"}, NoNode: task.NoNodeFallback, Queue: "images"},

			Signal:       &task.Signal{Name: "approval", Timeout: task.Duration(time.Hour), OnTimeout: task.SignalGoOn},
			OnDisconnect: task.DisconnectContinue,
		},
		Params: json.RawMessage(`{"size":[640,480],"name":"Größe"}`),
		Labels: map[string]string{"tenant": "acme", "class": "batch"},
		Route:  "images.8", StartBy: noon.Add(time.Hour), Group: "nightly", Parent: "01JNA0PARENT00000000000000",
		Holds:  []string{task.HoldNeeds, task.HoldLimit},
		Needs:  &task.Needs{Rule: task.NeedAny, Of: []task.Need{{Task: "01JNA0NEED0000000000000000", Name: "extract", When: task.WhenEnd}}},
		Inputs: json.RawMessage(`{"extract":{"task":"01JNA0NEED0000000000000000","state":"finished","result":{"rows":3}}}`),
	}
	bodies := map[Type]any{
		TaskSubmitted: task.Submitted{Work: work, Due: noon.Add(time.Minute), RetryOf: "01JNA0RETRY000000000000000"},
		TaskQueued:    task.Queued{Work: work, Attempt: 2, After: 41, Reason: task.ReasonExit, Due: noon.Add(2 * time.Second)},
		AttemptStarted: task.AttemptStarted{Attempt: 2, Node: "w2", Session: "s9", Offer: 52,
			TookOver: &task.TookOver{Epoch: 40, Reason: "the lease of w1 ran out"}},
		AttemptFinished: task.AttemptFinished{Attempt: 2, Epoch: 53, Exit: &exit, Result: json.RawMessage(`{"files":2}`), Usage: usage},
		AttemptFailed: task.AttemptFailed{Attempt: 2, Epoch: 53, Class: task.ReasonExit, Exit: &exit, Message: "cannot read \"a\"\nline 2",
			Retry: &task.RetryPlan{Attempt: 3, Due: noon.Add(4 * time.Second)}, Reason: "the task asked for a pause of 4s", Usage: usage},
		AttemptReleased:     task.AttemptReleased{Attempt: 2, Epoch: 53, Reason: "the node shuts down"},
		AttemptLost:         task.AttemptLost{Attempt: 2, Epoch: 53, Reason: "node w2 is offline"},
		AttemptLate:         task.AttemptLate{Epoch: 40, Node: "w1", Said: json.RawMessage(`{"type":"attempt.finished","exit":0}`)},
		TaskCancelRequested: task.CancelRequested{Reason: "wrong input", Deadline: noon.Add(10 * time.Second)},
		TaskCancelled:       task.CancelConfirmed{Reason: "wrong input", Code: task.ReasonSkipped, Epoch: 53, Exit: &exit},
		TaskAbnormal:        task.GivenUp{Reason: task.ReasonPoison, Detail: "4 nodes were lost while running it, the last one w2"},
		TaskReassigned:      task.Reassigned{From: "@w2.8", To: "images.8", Reason: "node w2 takes no new work"},
		TaskPostponed:       task.Postponed{Reason: task.ReasonBreaker, Detail: "the breaker of job thumbnail is open", Due: noon.Add(time.Minute)},
		TaskReopened:        task.Reopened{Reason: "the input was repaired"},
		TaskDismissed:       task.Dismissed{Reason: "the input is gone"},
		MessageDismissed:    task.MessageDismissed{Reason: "somebody else's test"},
		BreakerOpened:       task.BreakerOpened{Reason: "5 attempts failed within 1m0s", Until: noon.Add(time.Minute)},
		BreakerHalfOpened:   task.BreakerHalfOpened{Reason: "the cooldown is over", Until: noon.Add(time.Minute), Left: 2},
		BreakerTried:        task.BreakerTried{Reason: "trial: task 01JNA0TASK0000000000000000", Until: noon.Add(time.Minute), Left: 1},
		BreakerClosed:       task.BreakerClosed{Reason: "2 of 2 trials finished"},
		TaskUnheld:          task.Unheld{Hold: task.HoldNeeds, Reason: "all that it needs has ended", Inputs: json.RawMessage(`{"extract":{"state":"finished"}}`)},
		NodeRegistered: node.Registered{Session: "s9", Profile: node.Profile{Host: "rack3", PID: 4711, Version: "v0.3.0",
			Labels: map[string]string{"zone": "b"}, Slots: 16, Queues: []string{"default", "images"}, Probes: true}},
		NodeOnline: node.WentOnline{Session: "s9", Reason: "the connection came back", Connection: 3},
		NodeReady: node.BecameReady{Session: "s9", Reason: "its probe came through", Connection: 3, Took: task.Duration(4 * time.Millisecond),
			Kept: 2, Stopped: 1, Low: 48},
		NodeDraining:    node.Drained{Session: "s9", Reason: "asked to end"},
		NodeOffline:     node.WentOffline{Session: "s9", Reason: "its heartbeat ran out", Lost: true, Low: 48},
		NodeChanged:     node.Changed{Order: node.OrderDrain, Reason: "new kernel", Grace: task.Duration(time.Minute)},
		NodeQuarantined: node.WasQuarantined{Reason: "it came and went too often", Until: noon.Add(3 * time.Minute)},
		NodeReleased:    node.WasReleased{Reason: "the cable was changed"},
		NodeRetired:     node.WasRetired{Reason: "sold"},
		JobApplied:      task.JobApplied{Revision: 7, Digest: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
		JobRemoved:      task.JobRemoved{Revision: 8},
	}
	return facts(bodies, func(f *Fact) { f.Actor, f.Cause, f.Corr = "ops@example.org", sampleCause, sampleCause })
}

// minimal has a fact of each type with as little in it as the type allows.
func minimal() map[Type]Fact {
	work := task.Work{Spec: &task.Spec{Run: &task.Run{Shell: "true"}}, Route: "default.5"}
	return facts(map[Type]any{
		TaskSubmitted:       task.Submitted{Work: work},
		TaskQueued:          task.Queued{Work: work},
		AttemptStarted:      task.AttemptStarted{},
		AttemptFinished:     task.AttemptFinished{},
		AttemptFailed:       task.AttemptFailed{},
		AttemptReleased:     task.AttemptReleased{},
		AttemptLost:         task.AttemptLost{},
		AttemptLate:         task.AttemptLate{},
		TaskCancelRequested: task.CancelRequested{},
		TaskCancelled:       task.CancelConfirmed{},
		TaskAbnormal:        task.GivenUp{},
		TaskReassigned:      task.Reassigned{To: "default.5"},
		TaskPostponed:       task.Postponed{},
		TaskReopened:        task.Reopened{},
		TaskDismissed:       task.Dismissed{},
		MessageDismissed:    task.MessageDismissed{},
		BreakerOpened:       task.BreakerOpened{},
		BreakerHalfOpened:   task.BreakerHalfOpened{},
		BreakerTried:        task.BreakerTried{},
		BreakerClosed:       task.BreakerClosed{},
		TaskUnheld:          task.Unheld{Hold: task.HoldNeeds},
		NodeRegistered:      node.Registered{},
		NodeOnline:          node.WentOnline{},
		NodeReady:           node.BecameReady{},
		NodeDraining:        node.Drained{},
		NodeOffline:         node.WentOffline{},
		JobApplied:          task.JobApplied{},
		JobRemoved:          task.JobRemoved{},
		NodeChanged:         node.Changed{},
		NodeQuarantined:     node.WasQuarantined{},
		NodeReleased:        node.WasReleased{},
		NodeRetired:         node.WasRetired{},
	}, func(*Fact) {})
}

func facts(bodies map[Type]any, more func(*Fact)) map[Type]Fact {
	all := map[Type]Fact{}
	for _, typ := range slices.Sorted(maps.Keys(bodies)) {
		f := Fact{ID: sampleFact, At: noon, Type: typ, Event: bodies[typ]}
		switch f.Event.(type) {
		case node.Event:
			f.Node = "w2"
		case task.JobEvent, task.BreakerEvent:
			f.Job = "thumbnail"
		case task.MessageEvent:
			f.Message = 41
		default:
			f.Task = sampleTask
		}
		more(&f)
		all[typ] = f
	}
	return all
}

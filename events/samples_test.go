package events

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/param"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/value"
)

// noon is the time of all samples; the nanoseconds must survive the wire.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

const (
	sampleFact  = "01JNA0FACT0000000000000000"
	sampleCause = "01JNA0CAVSE000000000000000"
	sampleTask  = task.ID("01JNA0TASK0000000000000000")
)

// answers is a form with every field set.
var answers = []param.Param{{Name: "share", Title: "Share", Description: "of the machines", Type: param.Integer, Enum: []json.RawMessage{json.RawMessage(`10`)}, Min: new(value.Number("1")), Max: new(value.Number("50")),
	Pattern: "1.*", Schema: json.RawMessage(`{"multipleOf":5}`), Default: json.RawMessage(`10`), Optional: true, Secret: true}}

// full has a fact of each type with every field set.
func full() map[Type]Fact {
	exit, gpu := 3, "a100"
	usage := &task.Usage{UserTime: value.Duration(1500 * time.Millisecond), SystemTime: value.Duration(20 * time.Millisecond), MaxMemory: 48 << 20,
		Read: 4096, Written: 8192, Signal: "SIGTERM", Setup: value.Duration(time.Second), Run: value.Duration(time.Minute), Stop: value.Duration(20 * time.Millisecond), Limits: "memory 64MiB (cgroup)", Refused: 2}
	asked := &placement.Asked{Queue: "images", Needs: placement.Selector{{Key: "handler/thumbnail", Op: placement.OpExists}, {Key: "node", Op: placement.OpNotIn, Values: []string{"w2"}}}}
	work := task.Work{
		Job: "thumbnail", Revision: 7,
		Spec: &job.Spec{
			Run: &job.Run{Argv: []string{"convert", "--quality", "85", "a <b>.png"}, Dir: "/srv/images", Env: map[string]string{"LANG": "C.UTF-8"}, Stdin: job.StdinOpen, Messages: job.MessagesKeyed, ParamsEnv: true, Encoding: "gbk",
				User: "images", EnvClear: true, Inherit: []string{"TERM"}, EnvFiles: []string{".env"}, Secrets: map[string]job.Secret{"KEY": {File: "/run/secrets/key"}},
				Program: "python3 app.py", Handler: "resize", Image: "alpine:3.22", Pull: job.PullAlways, Mounts: []string{"/srv/data:/data:ro"}, Network: "none", Runtime: "podman"},
			Timeout: job.Timeout{Pending: value.Duration(time.Hour), Assign: value.Duration(10 * time.Minute), Run: value.Duration(90 * time.Second), Extend: value.Duration(time.Hour), Total: value.Duration(6 * time.Hour), Idle: value.Duration(30 * time.Second), Heartbeat: value.Duration(time.Minute), Stop: value.Duration(5 * time.Second), Setup: value.Duration(2 * time.Minute)},
			Retry: job.Retry{Max: 3, Backoff: job.BackoffLinear, Min: value.Duration(2 * time.Second), MaxDelay: value.Duration(time.Minute),
				Jitter: 0.5, On: []string{value.Exit, value.Network}, NotOn: []string{value.Memory, "exit=64-78"}, AvoidNode: true, AvoidWait: value.Duration(5 * time.Minute), Budget: value.Duration(time.Hour)},
			Breaker: &limit.Breaker{Failures: 5, Within: value.Duration(2 * time.Minute), Cooldown: value.Duration(time.Minute), HalfOpen: 2, OnOpen: limit.OnOpenHold},
			Window:  "night",
			PerNode: limit.PerNodes{{Max: 2, Key: "{params.tenant}"}},
			Budget:  limit.Budgets{{Starts: 1000, Run: value.Duration(8 * time.Hour), Per: limit.PerWeek, Timezone: "Europe/Berlin", Key: "{params.tenant}"}},
			Place: job.Place{Mode: job.PlaceNodes, Nodes: []string{"w1", "w2"}, Each: true, NoNode: job.NoNodeFallback, Queue: "images",
				Labels: placement.Selector{{Key: "zone", Op: placement.OpIn, Values: []string{"a", "b"}}, {Key: "gpu", Op: placement.OpExists}}, Avoid: []string{"w3"},
				Count: 2, Spread: "rack", Late: job.LateInclude, Sticky: "{params.name}", PreferWait: value.Duration(5 * time.Second),
				Prefer: []job.Preference{{Labels: placement.Selector{{Key: "gpu", Op: placement.OpExists}}, Weight: 10}}},
			Slots: 2,

			Signal: &job.Signal{Name: "approval", Timeout: value.Duration(time.Hour), OnTimeout: job.SignalGoOn, Who: []string{"ann", "proxy:*@example.com"}, Remind: value.Duration(4 * time.Hour),
				Form: answers},
			OnDisconnect: job.DisconnectContinue,
			OnRestart:    job.RestartAdopt,
			Files:        &job.Files{Bundle: "images@9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", To: "src", Mode: job.FilesLink},
			Setup:        []string{"make deps"},
			Returns:      json.RawMessage(`{"type":"object"}`),
			Artifacts:    &job.Artifacts{Paths: []string{"out/**"}, When: job.ArtifactsAlways},

			Concurrency: limit.Concurrencies{{Max: 5, Key: "{params.tenant}", OnLimit: limit.CancelOld}},
			Rate:        limit.Rates{{Limit: 10, Per: value.Duration(time.Minute), Burst: 3, Key: "/{labels.site}"}},
			Unique:      job.Unique{Key: "{params.name}", While: []string{"pending", "running"}, TTL: value.Duration(time.Hour), OnConflict: job.ConflictReturn},
			Collapse:    &job.Collapse{Key: "{params.name}", Quiet: value.Duration(10 * time.Second), Most: value.Duration(time.Minute), Keep: job.KeepAll},
			Keep: job.Keep{Finished: value.Duration(168 * time.Hour), Error: value.Duration(2160 * time.Hour), Cancelled: value.Duration(time.Hour), Abnormal: value.Duration(4320 * time.Hour),
				All: value.Duration(720 * time.Hour), Done: value.Duration(24 * time.Hour), Failed: value.Duration(720 * time.Hour), Logs: value.Duration(72 * time.Hour)},
			Resources: job.Resources{Memory: 64 << 20, CPU: 0.5, PIDs: 16, FileSize: 1 << 30, Output: 1 << 20},
			Each:      &job.Each{Values: []json.RawMessage{json.RawMessage(`"eu"`), json.RawMessage(`{"n":1}`)}, Param: "sites", Result: "list"},
			Steps: []job.Step{{Name: "list", Spec: job.Spec{Handler: "list"}}, {
				Name: "ship", Needs: []job.StepNeed{{Step: "list", When: job.WhenEnd}}, Rule: job.NeedAny, Queue: "slow",
				Params: map[string]json.RawMessage{"x": json.RawMessage("1")}, Spec: job.Spec{Handler: "ship"},
			}},
			On: &job.Handlers{Success: handled, Failure: handled, Cancel: handled, Exit: handled, Job: "extract", Ends: []string{"finished", "error"}, Subject: "orders.created.>", Stream: "ORDERS", File: "/in/*.csv", Quiet: value.Duration(time.Second), When: `payload.state == "error"`},
		},
		Params: json.RawMessage(`{"size":[640,480],"name":"Größe"}`), Spelled: true, Secrets: []string{"token"},
		Labels: map[string]string{"tenant": "acme", "class": "batch"},
		Route:  "images.8", StartBy: noon.Add(time.Hour), EndBy: noon.Add(6 * time.Hour), Group: "nightly", Parent: "01JNA0PARENT00000000000000", Step: "sum/0", Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		FairKey: "acme", Title: "thumbnails of the spring catalogue",
		Origin: task.Origin{Schedule: "every-night", Tick: noon.Add(-time.Second), Trigger: task.TriggerCatchUp, After: "01JNA0ENDED000000000000000", Ended: 38, MadeBy: "message 7 of stream ORDERS"},
		Holds:  []string{task.HoldNeeds, task.HoldLimit},
		Needs:  &task.Needs{Rule: job.NeedAny, Of: []task.Need{{Task: "01JNA0NEED0000000000000000", Name: "extract", When: job.WhenEnd}}},
		Inputs: json.RawMessage(`{"extract":{"task":"01JNA0NEED0000000000000000","state":"finished","result":{"rows":3}}}`),
		Asked:  asked,
	}
	ledger := task.Ledger{Last: noon.Add(-time.Minute), Open: []task.ID{sampleTask},
		Waiting: []task.WaitingTick{{Tick: noon.Add(-time.Minute), Trigger: task.TriggerSchedule}}, Failures: 2}
	drawn := []task.Step{{Kind: task.StepNow, Result: json.RawMessage(`"2026-03-01T12:00:03Z"`), At: noon.Add(3 * time.Second)}}
	bodies := map[Type]any{
		TaskSubmitted: task.Submitted{Work: work, Due: noon.Add(time.Minute), RetryOf: "01JNA0RETRY000000000000000",
			Window: &task.Shut{Calendar: 3, From: noon, Detail: "outside of the window night, opens at 2026-03-01 12:01:00 +00:00"}},
		TaskQueued: task.Queued{Work: work, Attempt: 2, After: 41, Reason: value.Exit, Due: noon.Add(2 * time.Second), Rated: 17},
		TaskDue:    task.Due{After: 41, Route: "images.8", Due: noon.Add(2 * time.Second), Number: 3},
		AttemptStarted: task.AttemptStarted{Attempt: 2, Node: "w2", Session: "s9", Offer: 52,
			TookOver: &task.TookOver{Epoch: 40, Reason: "the lease of w1 ran out: no heartbeat has named the attempt since 11:59:20.000", Ground: task.GroundBeat,
				Heard: noon.Add(-40 * time.Second)}},
		AttemptFinished: task.AttemptFinished{Attempt: 2, Epoch: 53, Exit: &exit, Result: json.RawMessage(`{"files":2}`), Usage: usage, Drawn: drawn},
		AttemptFailed: task.AttemptFailed{Attempt: 2, Epoch: 53, Class: value.Exit, Exit: &exit, Message: "cannot read \"a\"\nline 2",
			Retry: &task.RetryPlan{Attempt: 3, Due: noon.Add(4 * time.Second)}, Reason: "the task asked for a pause of 4s", RetryAfter: value.Duration(4 * time.Second), Usage: usage, Drawn: drawn},
		AttemptReleased: task.AttemptReleased{Attempt: 2, Epoch: 53, Reason: "the node shuts down", Drawn: drawn},
		AttemptLost:     task.AttemptLost{Attempt: 2, Epoch: 53, Reason: "node w2 is offline"},
		AttemptExtended: task.AttemptExtended{Attempt: 2, Epoch: 53, Until: noon.Add(2 * time.Minute)},
		AttemptAdopted:  task.AttemptAdopted{Attempt: 2, Epoch: 53, Node: "w2", Session: "01JNA0SESS1ONB000000000000", PID: 4242, Gap: value.Duration(1500 * time.Millisecond)},
		AttemptStepped: task.AttemptStepped{Attempt: 2, Epoch: 53, First: 1, Steps: []task.Step{
			{Name: "charge", Kind: task.StepDo, Result: json.RawMessage(`{"receipt":"r-7"}`), At: noon.Add(2 * time.Second), Took: value.Duration(1200 * time.Millisecond)},
			{Name: "mail", Kind: task.StepDo, Error: "the post is closed", Tries: 3, At: noon.Add(3 * time.Second)}}},
		AttemptParked: task.AttemptParked{Attempt: 2, Epoch: 53, First: 3, Steps: []task.Step{{Name: "ship", Kind: task.StepDo, Error: "no van", Tries: 1, Open: true}},
			Park:  task.Park{Step: "thumbs", Kind: task.StepCall, Form: answers, Alone: true, Until: noon.Add(time.Hour), Of: []task.Need{{Task: "01JNA0CH11D000000000000000", Name: "0", When: job.WhenEnd}}},
			Usage: usage},
		AttemptLate:         task.AttemptLate{Epoch: 40, Node: "w1", Said: json.RawMessage(`{"type":"attempt.finished","exit":0}`)},
		TaskCancelRequested: task.CancelRequested{Reason: "wrong input", Deadline: noon.Add(10 * time.Second)},
		TaskCancelled:       task.CancelConfirmed{Reason: "wrong input", Code: value.Skipped, Epoch: 53, Exit: &exit, Usage: usage},
		TaskAbnormal:        task.GivenUp{Reason: value.Poison, Detail: "4 nodes were lost while running it, the last one w2"},
		TaskReassigned:      task.Reassigned{From: "@w2.8", To: "images.8", Reason: "node w2 takes no new work", Asked: asked, Until: noon.Add(10 * time.Second)},
		TaskPostponed:       task.Postponed{Reason: value.Breaker, Detail: "the breaker of job thumbnail is open", Due: noon.Add(time.Minute)},
		TaskCollapsed:       task.Collapsed{Of: "01JNA0CH11D000000000000000", Params: json.RawMessage(`{"collected":[{"size":640}],"size":640}`), Due: noon.Add(10 * time.Second)},
		TaskThrottled:       task.Throttled{Node: "w2", Limit: "rate:queue:images#17"},
		TaskReopened:        task.Reopened{Reason: "the input was repaired", Again: "transform/0"},
		TaskExpanded:        task.Expanded{Children: task.Children{AtSeq: 51, Names: []string{"w1", "w2"}, Spares: []string{"w4"}}},
		TaskConcluded: task.Concluded{State: task.Error, Reason: value.Task, Message: "2 of 2 have ended: 1 finished, 1 error",
			Result: json.RawMessage(`{"error":1,"finished":1}`)},
		NodeLabelled: node.Labelled{Labels: map[string]*string{"gpu": &gpu, "spot": nil}, Reason: "a new card"},
		LimitGranted: task.Granted{Grants: []task.Grant{{Task: sampleTask, Turn: 52, Limits: []string{"key:thumbnail/acme", "rate:/example.org", "rate:queue:images#17"}, Rated: 17}}, Refused: []task.ID{"01JNA0CH11D000000000000000"},
			Rates: map[string]time.Time{"rate:/example.org": noon.Add(12 * time.Second), "rate:queue:images#17": noon.Add(time.Second)}},
		CopiesRestored: task.CopiesRestored{More: 3, Copies: []task.Restored{
			{Of: "job", Name: "thumbnail", Found: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", Revision: 7}, {Of: "schedule", Name: "nightly", Revision: 2}}},
		UniqueClaimed:     birth.KeyClaimed{Holder: sampleTask, Before: []task.ID{"01JNA0PARENT00000000000000"}},
		TaskDismissed:     task.Dismissed{Reason: "the input is gone", Undo: true},
		MessageDismissed:  task.MessageDismissed{Reason: "somebody else's test"},
		BreakerOpened:     limit.Opened{Reason: "5 attempts failed within 1m0s", Until: noon.Add(time.Minute)},
		BreakerHalfOpened: limit.HalfOpened{Reason: "the cooldown is over", Until: noon.Add(time.Minute), Left: 2},
		BreakerTried:      limit.Tried{Reason: "trial: task 01JNA0TASK0000000000000000", Until: noon.Add(time.Minute), Left: 1},
		BreakerClosed:     limit.Closed{Reason: "2 of 2 trials finished"},
		TaskUnheld:        task.Unheld{Hold: task.HoldNeeds, Reason: "all that it needs has ended", Inputs: json.RawMessage(`{"extract":{"state":"finished"}}`)},
		NodeRegistered: node.Registered{Session: "s9", Profile: node.Profile{Host: "rack3", PID: 4711, Version: "v0.3.0",
			Labels: map[string]string{"zone": "b"}, Slots: 16, Queues: []string{"default", "images"}, Probes: true,
			Announces: true, Handlers: []string{"resize", "thumbnail"}, Commands: true, Runtimes: []string{"podman"}, TTL: value.Duration(15 * time.Second)}, Until: noon.Add(4 * time.Second)},
		NodeOnline: node.WentOnline{Session: "s9", Reason: "the connection came back", Connection: 3},
		NodeReady: node.BecameReady{Session: "s9", Reason: "its probe came through", Connection: 3, Took: value.Duration(4 * time.Millisecond),
			Kept: 2, Stopped: 1, Low: 48},
		NodeDraining:      node.Drained{Session: "s9", Reason: "asked to end"},
		NodeOffline:       node.WentOffline{Session: "s9", Reason: "its heartbeat ran out", Lost: true, Low: 48},
		NodeChanged:       node.Changed{Order: node.OrderDrain, Reason: "new kernel", Grace: value.Duration(time.Minute)},
		NodeQuarantined:   node.WasQuarantined{Reason: "it came and went too often", Until: noon.Add(3 * time.Minute)},
		NodeReleased:      node.WasReleased{Reason: "the cable was changed"},
		NodeRetired:       node.WasRetired{Reason: "sold"},
		DefinitionApplied: task.DefinitionApplied{Edition: sampleEdition(7), Source: "/srv/jobs/hello.yaml"},
		DefinitionRemoved: task.DefinitionRemoved{Revision: 8},
		QueuePaused:       queue.Paused{Reason: "the shop is closed", Until: noon.Add(time.Hour)},
		QueueResumed:      queue.Resumed{Reason: "open again"},
		QueueLimited:      queue.Limited{Running: 4, Waiting: 10_000, Rate: limit.Rate{Limit: 100, Per: value.Duration(time.Minute), Burst: 20}, Valve: queue.Valve{Window: "night"}, Notify: sampleNotify, Reason: "the licence has four seats"},
		QueuePurged:       queue.Purged{Reason: "wrong input", Ended: 512},
		SchedulePaused:    task.SchedulePaused{Edition: sampleEdition(9), Reason: "maintenance"},
		ScheduleResumed:   task.ScheduleResumed{Edition: sampleEdition(10), Reason: "done"},
		ScheduleFired: task.ScheduleFired{Revision: 7, Tick: noon.Add(-time.Minute), Due: noon.Add(-time.Second),
			Detail: "dst once: 02:30 is there twice on this day, it fires the first time"},
		ScheduleAdmitted: task.ScheduleAdmitted{Revision: 7, Tick: noon.Add(-time.Minute), Due: noon.Add(-time.Second), Trigger: task.TriggerCatchUp, Made: sampleTask,
			Detail: "1h0m0s late, catchup is last", Ledger: ledger},
		ScheduleSkipped: task.ScheduleSkipped{Revision: 7, Tick: noon.Add(-time.Hour), Until: noon.Add(-time.Minute), Count: 60,
			Reason: task.SkipMissed, Detail: "catchup is none", Ledger: ledger},
		ScheduleQueued: task.ScheduleQueued{Revision: 7, Tick: noon.Add(-time.Minute), Trigger: task.TriggerSchedule, Detail: "overlap is queue", Ledger: ledger},
		TaskCarried: task.Carried{Fold: sampleFold(work, usage, asked), Offers: 2, OfferedAt: noon, Born: task.Beginning{Seq: 40, Chain: true, Due: noon,
			Window: &task.Shut{Calendar: 3, From: noon, Detail: "outside of the window night"}, Route: "images.8", Asked: asked,
			Holds: []string{task.HoldNeeds}, Inputs: json.RawMessage(`{"a":1}`), StartBy: noon, EndBy: noon}},
		TaskKept:     task.Kept{Head: 53},
		NodeCarried:  node.Carried{Fold: sampleNode(), Stored: sampleNode()},
		QueueCarried: queue.Carried{Fold: sampleQueue()},
		DefinitionCarried: task.DefinitionCarried{Edition: sampleEdition(9), As: string(SchedulePaused), Source: "/srv/jobs/hello.yaml",
			Reason: "maintenance"},
		HorizonChosen: task.HorizonChosen{Span: task.Span{From: 1, Below: 41, Before: noon}, Why: "30 days"},
		ArchiveRemoved: task.ArchiveRemoved{
			Span: task.Span{From: 1, Below: 41, Before: noon}, Open: true, Closed: true, Sealed: true, Chosen: 50, Since: noon,
			Archive: "/var/lib/past", Segments: []string{"1-40"}, More: 2},
		HorizonSealed: task.HorizonSealed{Span: task.Span{From: 1, Below: 41, Before: noon}, Chosen: 50, Segment: "1-40", First: 1, Last: 40, Messages: 40, Bytes: 4096,
			Digest: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
		HorizonCarried: task.HorizonCarried{Span: task.Span{From: 1, Below: 41, Before: noon}, Chosen: 50, Chains: 7},
		HorizonPurged:  task.HorizonPurged{Span: task.Span{From: 1, Below: 41, Before: noon}, Chosen: 50},
		JobTallied: task.JobTallied{Below: 41, Finished: 9, Error: 1, Cancelled: 2, Abnormal: 3, Ran: value.Duration(time.Hour),
			Buckets: []uint64{0, 9}, First: noon.Add(-time.Hour), Last: noon},
	}
	return facts(bodies, func(f *Fact) {
		f.Actor, f.Cause, f.Corr, f.By, f.Repeats = "ops@example.org", sampleCause, sampleCause, sampleBy, 17
	})
}

// sampleFold is a task with every field set.
func sampleFold(w task.Work, u *task.Usage, asked *placement.Asked) task.Task {
	exit := 3
	return task.Task{
		ID: sampleTask, State: task.Retrying, Reason: value.Exit, Message: "exit 3", Work: w, RetryOf: "01JNA0RETRY000000000000000", Batch: sampleCause,
		Attempt: 2, Epoch: 53, Offer: 52, Node: "w2", Session: "s9", Head: 55, Turn: 55, Offered: true, Throttled: true, Rated: 17, Seq: 56,
		Failures: 2, Losses: 1, FailedOn: "w2", Avoids: []string{"w2"}, Begun: noon, Handed: &task.Handed{Home: "images.8", Until: noon, Asked: asked},
		Late: 1, Dismissed: &task.Dismissal{At: noon, By: "ops", Reason: "seen"}, CancelAsked: &task.CancelAsked{By: "ops", Reason: "wrong input"},
		SubmittedAt: noon, Due: noon, Since: noon, StartedAt: noon, EndedAt: noon, Ran: value.Duration(time.Second), Extended: noon, CancelBy: noon,
		Rivals: []task.Rival{{Seq: 41, At: noon, Work: w, Due: noon, RetryOf: "01JNA0RETRY000000000000000"}}, Life: 50, EndSeq: 55, Again: "transform/0", Collapsed: 2, Collected: 14, CollapsedOf: []task.ID{"01JNA0CH11D000000000000000"},
		Children: &task.Children{AtSeq: 51, Names: []string{"w1"}, Spares: []string{"w4"}}, Exit: &exit, Result: json.RawMessage(`{"files":2}`), Usage: u,
		Durable: &task.Durable{
			Steps:  []task.Step{{Name: "charge", Kind: task.StepDo, Result: json.RawMessage(`{"receipt":"r-7"}`), At: noon, Took: value.Duration(time.Second)}},
			Parked: &task.Parked{Park: task.Park{Step: "thumbs", Kind: task.StepCall, Form: answers, Alone: true, Until: noon, Of: []task.Need{{Task: "01JNA0CH11D000000000000000", Name: "0", When: job.WhenEnd}}}, Since: noon, Before: w.Needs},
		},
	}
}

// sampleNode is a node with every field set.
func sampleNode() node.Node {
	gpu := "a100"
	return node.Node{
		ID: "w2", State: node.Quarantined, Reason: "it came and went too often", Session: "s9", Profile: node.Profile{Host: "rack3", PID: 4711, Version: "v0.3.0",
			Labels: map[string]string{"zone": "b"}, Slots: 16, Queues: []string{"images"}, Probes: true, Announces: true, Handlers: []string{"resize"}, Commands: true, Runtimes: []string{"podman"}, TTL: value.Duration(15 * time.Second)},
		Relabels: map[string]*string{"gpu": &gpu}, OwnLabels: map[string]string{"zone": "b"}, Head: 48, Since: noon, Started: noon,
		Before: node.Predecessor{Session: "s8", Gone: noon, Older: noon}, Link: node.Ready, LinkReason: "its probe came through",
		OnlineSince: noon, ReadySince: noon, Connection: 3, Took: value.Duration(time.Millisecond), Kept: 2, Stopped: 1, Low: 48, Leaving: true, LeavingReason: "asked to end",
		Standing:   node.Standing{Order: node.OrderDrain, Reason: "new kernel", By: "ops", Grace: value.Duration(time.Minute), Since: noon},
		Quarantine: &node.Quarantine{Reason: "it came and went too often", Since: noon, Until: noon.Add(time.Minute)},
		Stability:  node.Stability{Sessions: 12, Ended: 11, Lived: value.Duration(time.Minute), Short: 11, Flap: node.Flap{Score: 10.25, At: noon}},
	}
}

// sampleQueue is a queue with every field set.
var sampleNotify = []job.Notify{{On: []string{"failure", "queue"}, To: []string{"oncall"}, Remind: value.Duration(time.Hour)}}

func sampleQueue() queue.Queue {
	return queue.Queue{
		Name: "images", Paused: &queue.Pause{Since: noon, By: "ops", Reason: "the shop is closed", Until: noon.Add(time.Hour), Consumer: "queue_images"}, Resumed: noon,
		Limit: 4, MaxWaiting: 10_000, Rate: limit.Rate{Limit: 100, Per: value.Duration(time.Minute), Burst: 20}, RateSince: 17, Valve: queue.Valve{Window: "night"}, Notify: sampleNotify, Head: 17,
	}
}

// sampleBy has every field set. No single rule needs all of them.
var sampleBy = &task.By{
	Rule: task.RuleDuty, Seen: 47, Cut: true, Closed: []limit.Scope{"job.nightly"}, Task: 41, Node: 48, Queue: 17, Offer: 45, Ends: []uint64{39, 40}, Unmade: true, Unique: &job.Unique{Key: "k", While: []string{"running"}, TTL: value.Duration(time.Hour), OnConflict: job.ConflictFail}, Flap: &task.FlapBounds{Limit: 10, Release: 3}, Alone: true, At: noon.Add(-time.Millisecond), Calendar: 3, Circuit: 42, Policy: &limit.Breaker{Failures: 5, Within: value.Duration(time.Minute), Cooldown: value.Duration(time.Minute), HalfOpen: 2, OnOpen: limit.OnOpenFail},
	Self: &task.Known{Node: "w1", At: 44}, Peer: &task.Known{Node: "w2", At: 43}, Ran: "w2", Limit: "key:thumbnail/acme", Beats: true, Drawn: 0.25, Final: true, Since: noon.Add(-5 * time.Minute), Looked: new(4),
	Bounds: &task.Bounds{StartDeadline: value.Duration(5 * time.Minute), AckWait: value.Duration(30 * time.Second), Slack: value.Duration(3 * time.Second), Timer: value.Duration(15 * time.Second), RetireAfter: value.Duration(24 * time.Hour)},
	Lease: &task.LeaseBy{Node: 46, At: noon.Add(-time.Second), Lasts: value.Duration(30 * time.Second), Beat: noon.Add(-40 * time.Second), Session: "s8",
		Named: true, TTL: value.Duration(15 * time.Second), RanOut: true},
}

// minimal has a fact of each type with as few fields as the type allows.
func minimal() map[Type]Fact {
	work := task.Work{Spec: &job.Spec{Run: &job.Run{Shell: "true"}}, Route: "default.5"}
	return facts(map[Type]any{
		TaskSubmitted:       task.Submitted{Work: work},
		TaskQueued:          task.Queued{Work: work},
		TaskDue:             task.Due{Route: "default.5"},
		AttemptStarted:      task.AttemptStarted{},
		AttemptFinished:     task.AttemptFinished{},
		AttemptFailed:       task.AttemptFailed{},
		AttemptReleased:     task.AttemptReleased{},
		AttemptLost:         task.AttemptLost{},
		AttemptExtended:     task.AttemptExtended{},
		AttemptAdopted:      task.AttemptAdopted{},
		AttemptLate:         task.AttemptLate{},
		AttemptStepped:      task.AttemptStepped{Steps: []task.Step{{Kind: task.StepNow}}},
		AttemptParked:       task.AttemptParked{Park: task.Park{Kind: task.StepDo}},
		TaskCancelRequested: task.CancelRequested{},
		TaskCancelled:       task.CancelConfirmed{},
		TaskAbnormal:        task.GivenUp{},
		TaskReassigned:      task.Reassigned{To: "default.5"},
		TaskPostponed:       task.Postponed{},
		TaskCollapsed:       task.Collapsed{},
		TaskThrottled:       task.Throttled{},
		TaskReopened:        task.Reopened{},
		TaskExpanded:        task.Expanded{},
		TaskConcluded:       task.Concluded{State: task.Finished},
		NodeLabelled:        node.Labelled{},
		TaskDismissed:       task.Dismissed{},
		MessageDismissed:    task.MessageDismissed{},
		BreakerOpened:       limit.Opened{},
		BreakerHalfOpened:   limit.HalfOpened{},
		BreakerTried:        limit.Tried{},
		BreakerClosed:       limit.Closed{},
		TaskUnheld:          task.Unheld{Hold: task.HoldNeeds},
		LimitGranted:        task.Granted{},
		CopiesRestored:      task.CopiesRestored{},
		UniqueClaimed:       birth.KeyClaimed{},
		NodeRegistered:      node.Registered{},
		NodeOnline:          node.WentOnline{},
		NodeReady:           node.BecameReady{},
		NodeDraining:        node.Drained{},
		NodeOffline:         node.WentOffline{},
		DefinitionApplied:   task.DefinitionApplied{},
		DefinitionRemoved:   task.DefinitionRemoved{},
		QueuePaused:         queue.Paused{},
		QueueResumed:        queue.Resumed{},
		QueueLimited:        queue.Limited{},
		QueuePurged:         queue.Purged{},
		SchedulePaused:      task.SchedulePaused{},
		ScheduleResumed:     task.ScheduleResumed{},
		ScheduleFired:       task.ScheduleFired{},
		ScheduleAdmitted:    task.ScheduleAdmitted{},
		ScheduleSkipped:     task.ScheduleSkipped{},
		ScheduleQueued:      task.ScheduleQueued{},
		NodeChanged:         node.Changed{},
		NodeQuarantined:     node.WasQuarantined{},
		NodeReleased:        node.WasReleased{},
		NodeRetired:         node.WasRetired{},
		TaskCarried:         task.Carried{Fold: task.Task{State: task.Held, Work: work}},
		TaskKept:            task.Kept{},
		NodeCarried:         node.Carried{},
		QueueCarried:        queue.Carried{},
		DefinitionCarried:   task.DefinitionCarried{},
		HorizonChosen:       task.HorizonChosen{},
		HorizonSealed:       task.HorizonSealed{},
		ArchiveRemoved:      task.ArchiveRemoved{},
		HorizonCarried:      task.HorizonCarried{},
		HorizonPurged:       task.HorizonPurged{},
		JobTallied:          task.JobTallied{},
	}, func(*Fact) {})
}

func facts(bodies map[Type]any, more func(*Fact)) map[Type]Fact {
	all := map[Type]Fact{}
	for _, typ := range slices.Sorted(maps.Keys(bodies)) {
		f := Fact{ID: sampleFact, At: noon, Type: typ, Event: bodies[typ]}
		switch f.Event.(type) {
		case node.Event:
			f.Node = "w2"
		case task.DefinitionEvent, task.CarriedEvent:
			f.Def = "schedule.every-night"
		case limit.CircuitEvent, task.TallyEvent:
			f.Job = "thumbnail"
		case queue.Event:
			f.Queue = "images"
		case task.ScheduleEvent:
			f.Schedule = "every-night"
		case task.LimitEvent:
			f.Scope = "job.thumbnail"
		case task.CopyEvent, task.HorizonEvent:
		case birth.KeyEvent:
			f.Key = "thumbnail/a.png"
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

// handled is a step for the end of others.
var handled = &job.Step{Spec: job.Spec{Handler: "tell"}}

// sampleEdition is the definition of a sample.
func sampleEdition(revision uint64) task.Edition {
	return task.Edition{Revision: revision, Text: json.RawMessage(`{"name":"thumbnail","run":{"argv":["convert"]}}`),
		Digest: "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}
}

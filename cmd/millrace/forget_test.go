package main

import (
	"context"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"millrace/events"
	"millrace/events/jet/outputs"
	"millrace/history/incident"
	"millrace/internal/cli/settings"
	"millrace/service/client"
	"millrace/task"
)

// forget plays a server whose log forgets all but its last message, and carries nothing: "forget past
// ..." seals it into an archive first.
func forget(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Connect(ctx, client.Options{Server: ts.Getenv("URL")})
	ts.Check(err)
	defer c.Close()
	where, err := settings.ParseArchive(args[0])
	ts.Check(err)
	s := &incident.Sealer{Log: c.Store(), To: incident.Folder(ts.MkAbs(args[0]))}
	if bucket, stored := settings.ArchiveBucket(where); stored {
		s.To = &outputs.Segments{Link: c.Store().Link, Bucket: bucket}
	}
	facts, err := c.Store().AllOf(ctx, events.KindHorizon)
	ts.Check(err)
	first, head := uint64(1), uint64(0)
	for i := range facts {
		head = facts[i].Seq
		if e, ok := facts[i].Fact.Event.(task.HorizonPurged); ok {
			first = e.Below
		}
	}
	record := func(e task.HorizonEvent) {
		now := c.Now()
		head, err = c.Store().Append(ctx, &events.Fact{ID: events.NewID(now), At: now, Actor: events.PartScheduler, Event: e}, head)
		ts.Check(err)
	}
	end, err := c.Last(ctx)
	ts.Check(err)
	chosen := task.HorizonChosen{Span: task.Span{From: first, Below: end, Before: c.Now()}}
	record(chosen)
	sealed, err := s.Seal(ctx, first, chosen)
	ts.Check(err)
	record(sealed)
	record(task.HorizonCarried{Span: chosen.Span})
	ts.Check(c.Store().Trim(ctx, end))
	record(task.HorizonPurged{Span: chosen.Span})
	ts.Setenv("SEGMENT", sealed.Segment)
	ts.Logf("forgot %+v", sealed)
}

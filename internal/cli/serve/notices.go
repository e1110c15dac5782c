package serve

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/pubsub"
	"millrace/events/submit"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/scheduler"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/service/notices"
	"millrace/service/triggers"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/worker"
)

// notify reads whom the setting notify says to tell; nil if it says nothing.
func (p *parts) notify() (*notices.Config, error) {
	if p.settings.Notify == "" {
		return nil, nil
	}
	config, err := notices.Load(p.settings.Notify)
	if err != nil {
		return nil, &term.Fault{Code: term.ExitUsage, Err: fmt.Errorf("notify: %w", err), Hint: term.Hint("docs/notices.md says what the file has")}
	}
	return config, nil
}

// link is the address of the pages in what people and handlers are told; "" if they are not served.
func (p *parts) link(config *notices.Config) string {
	switch {
	case config != nil && config.Link != "":
		return config.Link
	case p.http != nil:
		return strings.TrimSuffix(p.http.URL(), "/")
	}
	return ""
}

// tell starts what plans notices and what sends them, if there is whom to tell: a worker that has no handler but
// theirs. dir is the folder of the server.
func (p *parts) tell(config *notices.Config, dir string, service *answers.Service, deciding *jet.Store, decider *scheduler.Scheduler) error {
	if config == nil {
		return nil
	}
	store, nc, err := p.store("millrace notices", p.making)
	if err != nil {
		return err
	}
	look, maker := looks(service), p.maker(store)
	watch := &notices.Watch{Config: config, Look: look, Maker: maker, First: func() bool { return decider.First("notices") }, Position: filepath.Join(dir, "notices.at"), Log: p.log}
	sender := &notices.Sender{Config: config, Look: look, Wait: service.Model.Wait, Publish: publisher(nc), Link: p.link(config), Submit: func(ctx context.Context, s birth.Submission) error {
		_, err := maker.Submit(ctx, s)
		return err
	}}
	sender.Remember = func(ctx context.Context, first int, steps []task.Step) error {
		return worker.FromContext(ctx).Remember(ctx, first, steps)
	}
	w, release, err := p.ownWorker(dir, "notices", job.NoticeQueue, store)
	if err != nil {
		return err
	}
	p.closers = append(p.closers, release)
	w.Handle(job.NoticeHandler, sender.Send)
	p.workers.Add(1)
	p.start(func(ctx context.Context) error {
		defer p.workers.Done()
		return w.Run(ctx)
	})
	p.start(watch.Run)
	return nil
}

// ownWorker makes a worker of the server itself, for what only servers do: of is the end of its node's name, and of the
// name of a folder in dir. The node's name is free again after release.
func (p *parts) ownWorker(dir, of, queue string, store *jet.Store) (w *worker.Worker, release func(), err error) {
	host := worker.HostNode()
	name, release, err := freeNodeName(host[:min(len(host), 59-len(of))] + node.ID("-"+of))
	if err != nil {
		return nil, nil, err
	}
	w, err = worker.New(worker.Ports{Log: store, Offers: store, Nodes: store, Outputs: store}, worker.Config{
		Node: node.ID(name), Queues: []string{queue}, Slots: 8, Beat: p.settings.Beat, NodeTTL: p.settings.NodeTTL, Grace: 3 * time.Second,
		Flap: p.settings.Flap, Hurry: p.hurry.Now, Spool: filepath.Join(dir, of), Now: p.clock.Now, Version: wording.ThisBuild().Version, Log: p.log,
	})
	if err != nil {
		release()
	}
	return w, release, err
}

// monitor starts the worker that ends runs of monitors, once there is one.
func (p *parts) monitor(dir string, service *answers.Service, store *jet.Store) {
	p.workers.Add(1)
	p.start(func(ctx context.Context) error {
		defer p.workers.Done()
		waiting, found := context.WithCancel(ctx)
		defer found()
		answers.Again(waiting, time.Second, p.log, "it is not known whether there are monitors; trying again", func(ctx context.Context) error {
			counts, err := service.Model.Count(ctx, view.Query{Kind: view.Tasks, Filter: view.Filter{Queue: job.MonitorQueue}})
			if counts.All() > 0 {
				found()
			}
			return err
		})
		if ctx.Err() != nil {
			return nil
		}
		w, release, err := p.ownWorker(dir, "monitors", job.MonitorQueue, store)
		if err != nil {
			return err
		}
		defer release()
		w.HandleBy(job.MonitorHandler, &triggers.Monitors{Client: client.New(store, events.PartServer)})
		return w.Run(ctx)
	})
}

// follow starts what makes tasks of jobs that follow the ends of others, or messages.
func (p *parts) follow(service *answers.Service, deciding *jet.Store, decider *scheduler.Scheduler) {
	watch := &triggers.Watch{Look: looks(service), Maker: p.maker(deciding), First: func() bool { return decider.First("triggers") }, Log: p.log}
	messages := &triggers.Messages{Look: watch.Look, Maker: watch.Maker, Log: p.log, Listen: func(ctx context.Context, f *pubsub.Feed, take pubsub.Take) error {
		nc, err := p.dial("millrace messages for " + f.Job)
		if err != nil {
			return err
		}
		defer nc.Close()
		return f.Run(ctx, nc, take)
	}}
	p.start(watch.Run)
	p.start(messages.Run)
}

// find starts what makes tasks that follow from files on this node, if jobs may have it look for any.
func (p *parts) find(c WorkerConfig, store *jet.Store) {
	if len(c.watch) == 0 {
		return
	}
	maker := p.maker(store)
	maker.Rec.Actor = c.name
	files := &triggers.Files{Folders: c.watch, Node: node.ID(c.name), Jobs: store.Jobs, Maker: maker, Log: p.log}
	p.start(files.Run)
}

// looks lets a part of this process look at the present.
func looks(service *answers.Service) func(context.Context, func(context.Context, *answers.Sight) error) error {
	return func(ctx context.Context, look func(context.Context, *answers.Sight) error) error {
		sight, err := service.See(ctx, "")
		if err != nil {
			return err
		}
		return look(ctx, sight)
	}
}

// maker makes tasks by themselves of what the server sees.
func (p *parts) maker(store *jet.Store) *submit.Maker {
	return &submit.Maker{
		Store: client.New(store, events.PartServer).DeskStore(),
		Rec:   &events.Recorder{Log: store, Actor: events.PartServer, Hints: store, Now: p.clock.Now, NewID: events.NewID},
	}
}

// publisher publishes on a subject, and returns when the NATS server has the message.
func publisher(nc *nats.Conn) func(context.Context, string, []byte) error {
	return func(ctx context.Context, subject string, data []byte) error {
		if err := nc.Publish(subject, data); err != nil {
			return err
		}
		return nc.FlushWithContext(ctx)
	}
}

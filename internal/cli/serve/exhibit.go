package serve

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"millrace/events/jet/embed"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/wording"
	"millrace/projections"
	"millrace/service/answers"
	"millrace/service/client"
)

// Exhibit serves the log in a data directory read-only: it decides nothing and runs nothing, and
// from the moment at which it calls look it accepts no messages. With an address for HTTP it serves pages,
// and says where. It ends when look returns.
func (a *Commands) Exhibit(ctx context.Context, dir string, s settings.Values, look func(ctx context.Context, url string) error) error {
	log := slog.New(slog.DiscardHandler)
	server, err := embed.Start(embed.Config{Dir: dir, Log: log})
	if err != nil {
		return err
	}
	defer server.Stop()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p := a.newParts(ctx, dialEmbedded(server, log), s, settings.AtOnce, log)
	defer p.close()
	err = p.listenHTTP(dir)
	if err == nil {
		err = p.exhibit(dir)
	}
	if err != nil {
		stop()
		_ = p.wait() // err is the reason
		return err
	}
	if !p.ready() {
		return p.wait()
	}
	if _, err = a.sayHTTP(p, dir, true); err == nil {
		err = look(p.ctx, server.URL())
	}
	stop()
	if ended := p.wait(); err == nil {
		err = ended
	}
	return err
}

// exhibit starts the service for a log that accepts no more messages.
func (p *parts) exhibit(dir string) error {
	model, err := projections.Open(filepath.Join(dir, "view.db"))
	if err != nil {
		return err
	}
	p.closers = append(p.closers, func() { _ = model.Close() })
	reading, _, err := p.store("millrace projector", p.making)
	if err != nil {
		return err
	}
	answering, nc, err := p.store("millrace server", p.making)
	if err != nil {
		return err
	}
	if err := answering.Seal(p.ctx); err != nil {
		return fmt.Errorf("make the log one that takes nothing: %w", err)
	}
	last, err := answering.Last(p.ctx)
	if err != nil {
		return err
	}
	projector := &projections.Projector{Log: reading, Store: model, Logger: p.log, Complete: true}
	if p.http != nil {
		projector.Observers = append(projector.Observers, p.http, p.pages)
	}
	p.start(projector.Run)
	p.starting.Add(2)
	p.start(func(ctx context.Context) error {
		defer p.starting.Done()
		return model.Wait(ctx, last)
	})
	service := &answers.Service{Conn: nc, Client: client.New(answering, ""), Model: model, Version: wording.ThisBuild().Version, Nodes: p.settings.Nodes(),
		Now: p.clock.Now, Ready: p.starting.Done, Log: p.log}
	p.serveHTTP(service, answering)
	p.start(service.Run)
	return nil
}

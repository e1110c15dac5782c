package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"millrace/jet"
)

func (a *app) devCommand() *cobra.Command {
	var e embedded
	var w workerConfig
	c := &cobra.Command{
		Use:     "dev",
		Aliases: []string{"start-all"},
		Short:   "Start everything in one process on this machine",
		Long: `Starts a NATS server, the scheduler, the read model and a worker in this process. Data
is kept in a directory between starts. It listens on loopback only; other
commands of millrace on this machine find it by themselves. When everything is
ready, the server's URL stands in DIR/nats.url.`,
		Example: `  millrace dev
  millrace dev --data ./data --port 0 --slots 8`,
		Args: takes(0, 0, ""),
	}
	e.flags(c.Flags())
	w.flags(c.Flags())
	flags := addSettingFlags(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, _, err := a.loadSettings(flags, profileDev)
		if err != nil {
			return err
		}
		return a.embeddedServer(c.Context(), &e, s, &w, nil)
	}
	return c
}

// embeddedServer runs a server with everything behind it, and a worker if w is
// not nil, until ctx ends. It calls ready, if that is not nil, when all is ready.
func (a *app) embeddedServer(ctx context.Context, e *embedded, s Settings, w *workerConfig, ready func(*jet.Server)) error {
	log := a.processLogger()
	server, err := e.start(s, log)
	if err != nil {
		return err
	}
	defer server.Stop()
	p := a.newParts(ctx, dialEmbedded(server, log), s, log)
	defer p.close()
	role := "server"
	if w != nil {
		role = "dev"
	}
	if err := p.listen(role); err != nil {
		return err
	}
	view, err := p.serve(e.data)
	if err != nil {
		return err
	}
	if w != nil {
		if err := p.work(*w); err != nil {
			return err
		}
	}
	p.serveFigures()
	if !p.ready() {
		return p.wait()
	}
	remove, err := e.publish(server)
	if err != nil {
		return err
	}
	defer remove()
	if w != nil {
		forget, err := announceDev(server.URL(), e.data)
		if err != nil {
			log.Warn().Err(err).Msg("other commands do not find this server by themselves; use --server")
		} else {
			defer forget()
		}
	}
	a.sayReady(server, e.data, w)
	if ready != nil {
		ready(server)
	}
	p.start(a.activity(view))
	return p.wait()
}

func (a *app) sayReady(server *jet.Server, data string, w *workerConfig) {
	fmt.Fprintf(a.errs, "Millrace is ready at %s, its data in %s.\n", server.URL(), data)
	if w != nil {
		fmt.Fprint(a.errs, "Try `millrace run --follow -- echo hello` in another terminal. Ctrl-C ends it; tasks that run get time to end.\n")
	}
}

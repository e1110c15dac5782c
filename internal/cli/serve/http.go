package serve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"millrace/events/jet"
	"millrace/events/jet/request"
	"millrace/events/jet/rights"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/answers"
	"millrace/service/httpapi"
	"millrace/service/pages"
)

// listenHTTP opens the address of the HTTP service, if the settings have one. The credential of the
// machine is in the data directory, which belongs to this user alone. In development a free port
// will do if the usual one is taken: several servers may run on a machine.
func (p *parts) listenHTTP(data string) error {
	config := p.settings.HTTP
	if config.Address == "" {
		return nil
	}
	s, err := httpapi.Listen(p.ctx, config)
	if errors.Is(err, httpapi.ErrAddress) && config.Address == settings.DevHTTP && p.settings.Profile == settings.Dev {
		config.Address = "127.0.0.1:0"
		s, err = httpapi.Listen(p.ctx, config)
	}
	switch {
	case errors.Is(err, httpapi.ErrExposed):
		return &term.Fault{Code: term.ExitUsage, Err: err, Hint: term.Hint("or name an address of loopback with --http, such as 127.0.0.1:4280; docs/access.md says how to open it to other machines")}
	case errors.Is(err, httpapi.ErrConfig):
		return term.MisuseOf(err)
	case err != nil:
		return &term.Fault{Code: term.ExitRefused, Err: err, Hint: term.Hint("choose another address with --http, with port 0 for a free one, or --http off")}
	}
	p.closers = append(p.closers, s.Close)
	secret, err := request.Secret(filepath.Join(data, "http.token"))
	if err != nil {
		return fmt.Errorf("the credential for HTTP: %w", err)
	}
	s.Machine = &httpapi.Machine{Secret: secret, Caller: httpapi.Caller{Name: rights.LocalCaller(), Role: rights.Operator}}
	s.Version, s.Log = wording.ThisBuild().Version, p.log
	p.http, p.pages = s, pages.New(s)
	p.pages.Settings = p.settings.Judging()
	s.Pages = p.pages.Serve
	httpapi.ServeMCP(s)
	return nil
}

// serveHTTP begins to answer through a service, for holders of a store's tokens.
func (p *parts) serveHTTP(service *answers.Service, store *jet.Store) {
	if p.http == nil {
		return
	}
	service.Desk = answers.NewDesk(service)
	if p.figures != nil {
		p.figures.monitor.Add(p.http)
	}
	p.http.Desk, p.http.Tokens, p.http.Now = service.Desk, store, p.clock.Now
	p.start(p.http.Run)
	p.start(p.pages.Run)
}

// sayHTTP prints where the HTTP service is, and writes that to DIR/http.url until remove is called.
// With link, the address admits a browser.
func (a *Commands) sayHTTP(p *parts, data string, link bool) (remove func(), err error) {
	if p.http == nil {
		return func() {}, nil
	}
	path := filepath.Join(data, "http.url")
	if err := request.WriteSecret(path, []byte(p.http.URL())); err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	fmt.Fprintf(a.Errs, "The pages and the HTTP API are at %s; programs send the token in %s.\n", p.http.URL(), filepath.Join(data, "http.token"))
	if link {
		fmt.Fprintf(a.Errs, "This link lets a browser in, once: %s\n", p.http.Link())
	}
	return func() { _ = os.Remove(path) }, nil // it would lead nowhere
}

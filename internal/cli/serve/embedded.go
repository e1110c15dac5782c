package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/spf13/pflag"

	"millrace/events/jet"
	"millrace/events/jet/embed"
	"millrace/events/jet/request"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/service/client"
)

// Embedded are the flags of an embedded server.
type Embedded struct {
	Data            string
	Host            string
	Port            int
	User            string
	PasswordFile    string
	tokenFile       string
	tlsCert, tlsKey string
	insecure        bool
	connections     int
	// another tells whether another port will do if the usual one is taken.
	another bool
	Set     *pflag.FlagSet
}

// defaultPort is NATS's own, so that the nats command line finds it.
const defaultPort = 4222

func (e *Embedded) flags(fs *pflag.FlagSet) {
	e.Set = fs
	settings.InGroup(fs, settings.GroupEmbedded, func() { e.groupFlags(fs) })
}

func (e *Embedded) groupFlags(fs *pflag.FlagSet) {
	fs.StringVar(&e.Data, dataFlag, "", "`directory` of the data (default "+defaultData()+")")
	fs.StringVar(&e.Host, "listen", "127.0.0.1", "`address` to listen on; beyond loopback only with authentication and TLS")
	fs.IntVar(&e.Port, "port", defaultPort, "`port` to listen on, 0 for a free one")
	fs.StringVar(&e.tokenFile, "auth-token-file", "", "`file` with the token that clients must present")
	fs.StringVar(&e.User, "auth-user", "", "`name` of the user that clients must be")
	fs.StringVar(&e.PasswordFile, "auth-password-file", "", "`file` with that user's password")
	fs.StringVar(&e.tlsCert, "listen-cert", "", "`file` with the TLS certificate of the server")
	fs.StringVar(&e.tlsKey, "listen-key", "", "`file` with the TLS key of the server")
	fs.BoolVar(&e.insecure, "insecure", false, "listen beyond loopback without TLS: passwords and all data go unencrypted")
	fs.IntVar(&e.connections, "max-connections", embed.MaxConnections, "`number` of clients that may be connected at once")
}

// dataFlag also says where the read model lies; all other flags of the group are about the server.
const dataFlag = "data"

// unused refuses flags that say nothing, because the process uses another NATS server.
func (e *Embedded) unused(other string) (err error) {
	e.Set.Visit(func(f *pflag.Flag) {
		if err == nil && f.Name != dataFlag && slices.Contains(f.Annotations[settings.GroupNote], settings.GroupEmbedded) {
			err = &term.Fault{Code: term.ExitUsage, Err: fmt.Errorf("--%s is about a NATS server in this process, and %s is to be used", f.Name, other),
				Hint: term.Hint("leave the flag out; or --server, --context, $NATS_URL and $NATS_CONTEXT, and this process starts a NATS server")}
		}
	})
	return err
}

// defaultData is the default data directory: $XDG_DATA_HOME/millrace, by default below the home
// directory.
func defaultData() string {
	base := os.Getenv("XDG_DATA_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			home = "."
		}
		base = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(base, "millrace")
}

// Start starts the server. Its URL is written to DIR/nats.url only by Publish, when everything
// behind it is ready.
func (e *Embedded) Start(s settings.Values, log *slog.Logger) (*embed.Server, error) {
	if e.Data == "" {
		e.Data = defaultData()
	}
	if e.Port < 0 || e.Port > 65535 {
		return nil, term.MisuseOf(fmt.Errorf("--port is %d, want 0 to 65535", e.Port))
	}
	if e.Set.Changed("max-connections") && e.connections < 1 {
		return nil, term.MisuseOf(fmt.Errorf("--max-connections is %d, want at least 1", e.connections))
	}
	auth, err := e.auth()
	if err != nil {
		return nil, err
	}
	cfg := embed.Config{
		Dir: e.Data, Host: e.Host, Port: e.Port, SyncAlways: s.SyncAlways, SyncInterval: s.SyncInterval,
		Auth: auth, TLSCert: e.tlsCert, TLSKey: e.tlsKey, Insecure: e.insecure, Connections: e.connections, Store: s.Store, Log: log,
	}
	server, err := embed.Start(cfg)
	// If workers of other machines know the address, another port would be of no use.
	if errors.Is(err, embed.ErrPort) && e.another && !e.Set.Changed("port") {
		log.Warn("the usual port is taken; using a free one", "port", e.Port)
		cfg.Port = 0
		server, err = embed.Start(cfg)
	}
	switch {
	case errors.Is(err, embed.ErrLocked):
		return nil, &term.Fault{Code: term.ExitRefused, Err: err, Hint: term.Hint("stop the other one, or choose another directory with --data")}
	case errors.Is(err, embed.ErrExposed):
		return nil, &term.Fault{Code: term.ExitUsage, Err: err,
			Hint: term.Hint("write a secret into a file and pass --auth-token-file FILE (clients: --token-file FILE), or pass --auth-user with --auth-password-file; add --listen-cert and --listen-key for TLS")}
	case errors.Is(err, embed.ErrPlain):
		return nil, &term.Fault{Code: term.ExitUsage, Err: err,
			Hint: term.Hint("pass --listen-cert and --listen-key; or --insecure, if no one else can read the packets: passwords and all data then go unencrypted")}
	case errors.Is(err, embed.ErrShared):
		return nil, shared(err)
	case errors.Is(err, embed.ErrPort):
		return nil, &term.Fault{Code: term.ExitRefused, Err: err, Hint: term.Hint("stop who listens there, or choose another port with --port, 0 for a free one")}
	}
	if err == nil {
		if e.insecure && e.tlsCert == "" && server.Exposed() {
			log.Warn("this server listens beyond this machine without TLS: anyone who sees the packets reads passwords and all data", "address", server.Address())
		}
		_ = os.Remove(e.urlFile()) // of a killed process; it is written again when all is ready
	}
	return server, err
}

// shared says what the operator does about a data directory that others may enter. Any other error
// stays as it is.
func shared(err error) error {
	if !errors.Is(err, embed.ErrShared) {
		return err
	}
	return &term.Fault{Code: term.ExitRefused, Err: err, Hint: term.Hint("name a directory of its own with --data, such as one below this; or `chmod 700` this one as its owner")}
}

func (e *Embedded) auth() (a embed.Auth, err error) {
	if e.tokenFile != "" {
		if a.Token, err = client.ReadSecret(e.tokenFile); err != nil {
			return a, err
		}
	}
	switch {
	case e.User != "" && e.PasswordFile == "", e.User == "" && e.PasswordFile != "":
		return a, term.MisuseOf(errors.New("--auth-user and --auth-password-file go together"))
	case e.User != "":
		a.User = e.User
		a.Password, err = client.ReadSecret(e.PasswordFile)
	}
	return a, err
}

func (e *Embedded) urlFile() string { return filepath.Join(e.Data, "nats.url") }

// Publish writes the server's URL to DIR/nats.url, with the credential that the server has made
// itself, readable for its user alone; remove removes the file.
func (e *Embedded) Publish(server *embed.Server) (remove func(), err error) {
	if err := request.WriteSecret(e.urlFile(), []byte(server.URL())); err != nil {
		return nil, fmt.Errorf("write %s: %w", e.urlFile(), err)
	}
	// It would only lead to a server that does not answer.
	return func() { _ = os.Remove(e.urlFile()) }, nil
}

// dialEmbedded connects within the process.
func dialEmbedded(server *embed.Server, log *slog.Logger) dial {
	return func(name string) (*nats.Conn, error) { return server.Connect(jet.Resilient(name, log)...) }
}

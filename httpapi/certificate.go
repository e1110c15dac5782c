package httpapi

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificate is that of the service, as its files have it. They may be replaced, one after the other: as long as the two do not
// belong together, the one before is shown.
type certificate struct {
	cert, key string // paths

	mu   sync.Mutex
	seen [2]stamp         // guarded by mu; when the files were read
	is   *tls.Certificate // guarded by mu
}

// stamp tells whether a file is another one.
type stamp struct {
	changed time.Time
	size    int64
}

// load reads the files if they are others, and returns the certificate that holds.
func (c *certificate) load() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var now [2]stamp
	var errs []error
	for i, path := range []string{c.cert, c.key} {
		info, err := os.Stat(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		now[i] = stamp{info.ModTime(), info.Size()}
	}
	if now == c.seen {
		return c.is, nil
	}
	c.seen = now
	if err := errors.Join(errs...); err != nil {
		return c.is, err
	}
	read, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return c.is, err
	}
	c.is = &read
	return c.is, nil
}

// config is how TLS is spoken with it.
func (c *certificate) config(log *slog.Logger) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		is, err := c.load()
		if err != nil {
			log.Error("the certificate for HTTP cannot be read; the one before is shown", "error", err)
		}
		return is, nil
	}}
}

package httpapi

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// certificate is the service's certificate, read from files. The files may be replaced one after
// the other: while they do not match, the previous certificate stays in use.
type certificate struct {
	cert, key string // paths

	mu   sync.Mutex
	seen [2]stamp         // guarded by mu; when the files were read
	is   *tls.Certificate // guarded by mu
}

// stamp tells whether a file has changed.
type stamp struct {
	changed time.Time
	size    int64
}

// load reads the files if they have changed, and returns the certificate to use.
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
		return c.is, fmt.Errorf("%s with the key %s: %s", c.cert, c.key, strings.TrimPrefix(err.Error(), "tls: "))
	}
	c.is = &read
	return c.is, nil
}

// config returns the TLS configuration.
func (c *certificate) config(log *slog.Logger) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		is, err := c.load()
		if err != nil {
			log.Error("the certificate for HTTP cannot be read; the one before is shown", "error", err)
		}
		return is, nil
	}}
}

package observe

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// spanSender sends spans over HTTP. The sender of the OpenTelemetry library does that, too, but links
// gRPC for it.
type spanSender struct {
	to      string
	headers http.Header
	zip     bool
	client  *http.Client
	// firstWait is how long a refused batch waits at least the first time. Each later wait is twice as
	// long. It is 5 s, except in tests.
	firstWait time.Duration
}

// mostAnswer is how many bytes of an answer are read.
const mostAnswer = 4 << 10

// newSender returns a sender to the collector in the environment. It connects when it first sends.
func newSender(env func(string) string) (*spanSender, error) {
	setting := func(name string) string {
		return cmp.Or(env("OTEL_EXPORTER_OTLP_TRACES_"+name), env("OTEL_EXPORTER_OTLP_"+name))
	}
	to, err := destination(env)
	if err != nil {
		return nil, err
	}
	headers, err := headersOf(setting("HEADERS"))
	if err != nil {
		return nil, err
	}
	millis, err := strconv.ParseInt(cmp.Or(setting("TIMEOUT"), "10000"), 10, 32)
	if err != nil || millis < 0 {
		return nil, fmt.Errorf("$OTEL_EXPORTER_OTLP_TIMEOUT is %q, want milliseconds", setting("TIMEOUT"))
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if transport.TLSClientConfig, err = trust(setting); err != nil {
		return nil, err
	}
	return &spanSender{
		to:      to,
		headers: headers,
		zip:     setting("COMPRESSION") == "gzip",
		client:  &http.Client{Transport: transport, Timeout: time.Duration(millis) * time.Millisecond},

		firstWait: 5 * time.Second,
	}, nil
}

// destination is where spans go: the endpoint for traces as it is, or below the one for all signals.
func destination(env func(string) string) (string, error) {
	name, below := endpoints[0], "/"
	if env(name) == "" {
		name, below = endpoints[1], "/v1/traces"
	}
	to, err := url.Parse(cmp.Or(env(name), "http://localhost:4318"))
	if err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Host == "" {
		return "", fmt.Errorf("$%s is no address of HTTP: write one such as http://localhost:4318", name) // it may have a password
	}
	if name == endpoints[1] {
		to = to.JoinPath(below)
	}
	to.Path = cmp.Or(to.Path, below)
	return to.String(), nil
}

// headersOf reads name=value,name=value. Its errors name no value, which may be a token.
func headersOf(text string) (http.Header, error) {
	headers := http.Header{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, escaped, found := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(escaped))
		if name = strings.TrimSpace(name); !found || name == "" || err != nil {
			return nil, errors.New("$OTEL_EXPORTER_OTLP_HEADERS is not of the form name=value,name=value")
		}
		headers.Set(name, value)
	}
	return headers, nil
}

// trust is whom a connection trusts, and how it proves who it is; nil for the system's defaults.
func trust(setting func(string) string) (*tls.Config, error) {
	authority, certificate, key := setting("CERTIFICATE"), setting("CLIENT_CERTIFICATE"), setting("CLIENT_KEY")
	if authority == "" && certificate == "" && key == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if authority != "" {
		text, err := os.ReadFile(authority)
		if err != nil {
			return nil, fmt.Errorf("$OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("$OTEL_EXPORTER_OTLP_CERTIFICATE: %s has no certificate", authority)
		}
	}
	if certificate != "" || key != "" {
		own, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("$OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and _CLIENT_KEY: %w", err)
		}
		c.Certificates = []tls.Certificate{own}
	}
	return c, nil
}

// Start implements [otlptrace.Client].
func (*spanSender) Start(context.Context) error { return nil }

// Stop implements [otlptrace.Client].
func (*spanSender) Stop(context.Context) error { return nil }

// UploadTraces implements [otlptrace.Client]. While the collector is overloaded, it tries again until
// ctx ends.
func (c *spanSender) UploadTraces(ctx context.Context, all []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: all}) // the same bytes as the request of OTLP
	if err != nil {
		return err
	}
	if c.zip {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(body); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		body = b.Bytes()
	}
	for wait := c.firstWait; ; wait *= 2 {
		after, err := c.post(ctx, body)
		if err == nil || after < 0 || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(max(wait, after)):
		}
	}
}

// post sends a batch once. After an error that may pass, after is how long the collector wants it to
// wait, or 0; else it is negative.
func (c *spanSender) post(ctx context.Context, body []byte) (after time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.to, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	r.Header = c.headers.Clone()
	r.Header.Set("Content-Type", "application/x-protobuf")
	if c.zip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	answer, err := c.client.Do(r)
	if err != nil {
		return -1, err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer))
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300 && err != nil:
		return -1, err
	case code >= 200 && code < 300:
		return -1, refused(answer.Header.Get("Content-Type"), said)
	case code != http.StatusTooManyRequests && code != http.StatusBadGateway && code != http.StatusServiceUnavailable && code != http.StatusGatewayTimeout:
		after = -1
	default:
		seconds, _ := strconv.ParseInt(answer.Header.Get("Retry-After"), 10, 32)
		after = max(0, time.Duration(seconds)*time.Second)
	}
	return after, fmt.Errorf("%s answers %s: %s", r.URL.Redacted(), answer.Status, bytes.TrimSpace(said))
}

// refused is what a collector that has taken a batch says of spans that it has not.
func refused(form string, answer []byte) error {
	if form != "application/x-protobuf" {
		return nil
	}
	var n uint64
	var why string
	if part, ok := fieldOf(answer, 1, protowire.ConsumeBytes); ok { // ExportTracePartialSuccess
		n, _ = fieldOf(part, 1, protowire.ConsumeVarint)
		why, _ = fieldOf(part, 2, protowire.ConsumeString)
	}
	if n == 0 && why == "" {
		return nil
	}
	return fmt.Errorf("the collector has refused %d spans: %s", n, why)
}

// fieldOf is the first field with a number in a message of protocol buffers.
func fieldOf[T any](b []byte, number protowire.Number, read func([]byte) (T, int)) (v T, ok bool) {
	for len(b) > 0 {
		is, form, n := protowire.ConsumeTag(b)
		if n < 0 {
			return v, false
		}
		if is == number {
			v, n = read(b[n:])
			return v, n >= 0
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(is, form, b); n < 0 {
			return v, false
		}
		b = b[n:]
	}
	return v, false
}

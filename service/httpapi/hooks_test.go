package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/service/client"
)

func TestSigned(t *testing.T) {
	t.Parallel()
	secret, body, now := []byte("0123456789abcdef"), []byte(`{"a":1}`), time.Unix(1_800_000_000, 0)
	sum := func(text string) []byte {
		m := hmac.New(sha256.New, secret)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	standard := func(at time.Time, text string) map[string]string {
		of := fmt.Sprintf("m1.%d.%s", at.Unix(), text)
		return map[string]string{"Webhook-Id": "m1", "Webhook-Timestamp": fmt.Sprint(at.Unix()), "Webhook-Signature": "v1,AAAA v1," + base64.StdEncoding.EncodeToString(sum(of))}
	}
	for name, c := range map[string]struct {
		headers map[string]string
		want    bool
	}{
		"nothing":                  {},
		"GitHub":                   {map[string]string{"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(sum(string(body)))}, true},
		"of another body":          {map[string]string{"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(sum(`{"a":2}`))}, false},
		"an empty signature":       {map[string]string{"X-Hub-Signature-256": "sha256="}, false},
		"a wrong one and a secret": {map[string]string{"X-Hub-Signature-256": "sha256=00", "X-Gitlab-Token": string(secret)}, false},
		"standard":                 {standard(now, string(body)), true},
		"standard, old":            {standard(now.Add(-6*time.Minute), string(body)), false},
		"standard, from tomorrow":  {standard(now.Add(24*time.Hour), string(body)), false},
		"standard, another body":   {standard(now, "{}"), false},
		"GitLab":                   {map[string]string{"X-Gitlab-Token": string(secret)}, true},
		"a bearer":                 {map[string]string{"Authorization": "bearer " + string(secret)}, true},
		"another bearer":           {map[string]string{"Authorization": "Bearer 0123456789abcdeg"}, false},
		"no kind":                  {map[string]string{"Authorization": string(secret)}, false},
	} {
		h := http.Header{}
		for k, v := range c.headers {
			h.Set(k, v)
		}
		if is := signed(secret, h, body, now); is != c.want {
			t.Errorf("%s: %v", name, is)
		}
	}
}

// A webhook makes one task, however often it is sent, for whoever knows the secret of the job, and nothing
// for anybody else.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"deploy": "0123456789abcdef\n", "short": "0123", "gone": "0123456789abcdef", "picky": "0123456789abcdef"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := openWith(t, Config{Address: "127.0.0.1:0", Hooks: dir}, nil)
	for _, name := range []string{"deploy", "short"} {
		if got := s.send("PUT", prefix+"/jobs/"+name, `{"definition":{"handler":"h"}}`); got.status != http.StatusOK {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	when := func(text string) answer {
		return s.send("PUT", prefix+"/jobs/picky", `{"definition":{"handler":"h","on":{"when":"`+text+`"}}}`)
	}
	if got := when("payload.ref =="); got.status != http.StatusBadRequest || !strings.Contains(string(got.body), "on.when: ") {
		t.Errorf("a condition that is none: %d %s", got.status, got.body)
	}
	if got := when("payload.ref != 'main' and payload.ref > 'a'"); got.status != http.StatusOK {
		t.Errorf("%d %s", got.status, got.body)
	}
	post := func(job, secret, delivery string) answer {
		return s.send("POST", "/hooks/"+job, `{"ref":"main"}`, "Authorization", "", "X-Gitlab-Token", secret, "Idempotency-Key", delivery)
	}
	made := map[string]bool{}
	for _, delivery := range []string{"d1", "d1", "d2", "d1"} {
		got := post("deploy", "0123456789abcdef", delivery)
		var r client.Receipt
		if err := json.Unmarshal(got.body, &r); err != nil || got.status != http.StatusOK {
			t.Fatalf("%s: %d %s", delivery, got.status, got.body)
		}
		made[string(r.ID)] = true
	}
	if len(made) != 2 {
		t.Errorf("two deliveries, one of them sent three times, made the tasks %v", made)
	}
	for id := range made {
		if got := s.send("GET", prefix+"/tasks/"+id, ""); !strings.Contains(string(got.body), `"payload":{"ref":"main"}`) {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	for name, c := range map[string]struct {
		job, secret string
		want        int
	}{
		"a wrong secret":        {"deploy", "0123456789abcdeg", http.StatusUnauthorized},
		"no secret":             {"deploy", "", http.StatusUnauthorized},
		"a secret that is weak": {"short", "0123", http.StatusUnauthorized},
		"a job without one":     {"other", "0123456789abcdef", http.StatusUnauthorized},
		"outside of the folder": {"..%2fhooks", "0123456789abcdef", http.StatusUnauthorized},
		"no such job":           {"gone", "0123456789abcdef", http.StatusNotFound},
		"for which it is not":   {"picky", "0123456789abcdef", http.StatusNoContent},
	} {
		if got := post(c.job, c.secret, ""); got.status != c.want {
			t.Errorf("%s: %d %s, want %d", name, got.status, got.body, c.want)
		}
	}
}

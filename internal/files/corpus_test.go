package files_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"millrace/internal/files"
	"millrace/internal/testkit"
)

// A version of a bundle is named by the digest of its list of files, so that has one spelling for
// good.
func TestManifestCorpus(t *testing.T) {
	chunk := func(c string) files.Digest { return files.DigestOf([]byte(c)) }
	m := files.Manifest{Entries: []files.Entry{
		{Path: "bin/run", Size: 3, Exec: true, Chunks: []files.Digest{chunk("run")}},
		{Path: "bin/go", Link: "run"},
		{Path: "data/<ü>.bin", Size: files.ChunkSize + 1, Chunks: []files.Digest{chunk("a"), chunk("b")}},
		{Path: "empty", Dir: true},
		{Path: "nothing"},
	}}
	text, _, err := files.Encode(&m)
	if err != nil {
		t.Fatal(err)
	}
	nothing, _, err := files.Encode(&files.Manifest{})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Test(t, testkit.Form{
		Dir: "testdata/corpus/manifest", Version: 1, Today: map[string][]byte{"full.json": text, "empty.json": nothing}, Unknown: testkit.Refused,
		Next: func(written []byte, version int) []byte {
			return bytes.Replace(written, []byte(`{"entries":[`), fmt.Appendf(nil, `{"v":%d,"entries":[`, version), 1)
		},
		Again: func(written []byte) ([]byte, error) {
			m, err := files.Parse(written)
			if err != nil {
				return nil, err
			}
			text, digest, err := files.Encode(m)
			if err == nil && string(digest) != string(files.DigestOf(written)) {
				err = fmt.Errorf("its digest is %s", digest)
			}
			return text, err
		},
	})
}

// A manifest of a later version is refused as such, whatever its form.
func TestLaterManifest(t *testing.T) {
	_, err := files.Parse([]byte(`{"v":2,"entries":{"a":"b"}}`))
	if err == nil || !strings.Contains(err.Error(), "of version 2, and this program reads up to 1: use a newer millrace") {
		t.Errorf("the error is %v", err)
	}
}

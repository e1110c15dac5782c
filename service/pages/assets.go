package pages

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"

	"millrace/task/job"
	"millrace/task/value"
)

//go:embed own foreign
var loaded embed.FS

// asset is a file that pages load. It never changes under its path, which contains its digest.
type asset struct {
	digest string
	kind   string
	body   []byte
	zipped func() []byte
}

// Assets are all assets, by their names.
type Assets map[string]*asset

// All reads the assets.
var All = sync.OnceValue(func() Assets {
	all := Assets{}
	add := func(name string, body []byte) {
		if kind := mime.TypeByExtension(path.Ext(name)); kind != "" && !strings.HasSuffix(name, ".txt") { // no page loads others
			sum := sha256.Sum256(body)
			all[name] = &asset{hex.EncodeToString(sum[:8]), kind, body, sync.OnceValue(func() []byte { return zip(body) })}
		}
	}
	add("job.schema.json", job.Schema())
	for _, dir := range []string{"own", "foreign"} {
		for _, e := range value.Must(fs.ReadDir(loaded, dir)) { // all are parts of the program
			add(e.Name(), value.Must(loaded.ReadFile(dir+"/"+e.Name())))
		}
	}
	return all
})

func zip(body []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
	_, _ = z.Write(body)                                  // a bytes.Buffer takes everything
	_ = z.Close()
	return b.Bytes()
}

// Pattern is the path at which [Assets.ServeHTTP] is asked, relative to where the pages begin.
const Pattern = "assets/{digest}/{name}"

// Path returns the path of an asset, relative to where the pages begin.
func (all Assets) Path(name string) string {
	if a := all[name]; a != nil {
		return "assets/" + a.digest + "/" + name
	}
	return "assets/none/" + name
}

// ServeHTTP sends an asset to any caller: assets contain no data.
func (all Assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := all[r.PathValue("name")]
	if a == nil || a.digest != r.PathValue("digest") {
		http.Error(w, "there is nothing here; load the page again", http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	body := a.body
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = a.zipped()
	}
	_, _ = w.Write(body) // the receiver may be gone
}

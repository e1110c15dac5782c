package crawler

import (
	"embed"
	"io/fs"
	"net/http"
	"time"
)

//go:embed pages
var pages embed.FS

// slow is how long /archive.html takes to answer.
const slow = 400 * time.Millisecond

// Handler serves the site.
func Handler() http.Handler {
	root, _ := fs.Sub(pages, "pages") // the name is valid
	files := http.FileServerFS(root)
	mux := http.NewServeMux()
	mux.Handle("/", files)
	mux.Handle("/old-wheels.html", http.RedirectHandler("/wheels/", http.StatusMovedPermanently))
	mux.HandleFunc("/archive.html", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(slow):
			files.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})
	return mux
}

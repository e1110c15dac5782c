package browser

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

//go:embed check.js
var check string

//go:embed foreign/axe.min.js
var axe string

// tab is a browser tab with pages of a site. It collects what goes wrong on them, which fails the
// test.
type tab struct {
	*testing.T
	*site
	ctx context.Context

	mu    sync.Mutex
	wrong []string // guarded by mu
	cut   bool     // guarded by mu; the server is away, so requests fail
}

// look opens a tab whose user may do everything on the site.
func look(t *testing.T, s *site) *tab {
	t.Helper()
	b := newTab(t, s)
	b.do(chromedp.Navigate(s.door()))
	return b
}

// lookAs opens a tab in a new browser without cookies, whose user has a token of a role.
func lookAs(t *testing.T, s *site, role string) *tab {
	t.Helper()
	var made struct{ Token, URL string }
	if err := json.Unmarshal([]byte(s.cli(t, "token", "add", "the-"+role, "--role", role, "--replace", "--json")), &made); err != nil {
		t.Fatal(err)
	}
	for asked := 0; made.URL == "" && asked < mostAsked; asked++ { // the server hears of tokens by the log
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.proxy.URL+prefix+"/login", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+made.Token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		err = json.NewDecoder(answer.Body).Decode(&made)
		answer.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if made.URL == "" {
			time.Sleep(pollEvery)
		}
	}
	link, err := url.Parse(made.URL)
	if err != nil || link.RawQuery == "" {
		t.Fatalf("a token is given no link but %q", made.URL)
	}
	b := newTab(t, s, chromedp.WithNewBrowserContext())
	b.away(true) // the first page may not be for him
	b.goTo(link.RequestURI())
	b.ready()
	b.away(false)
	return b
}

// newTab opens a tab.
func newTab(t *testing.T, s *site, options ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(chromium, options...)
	t.Cleanup(end)
	b := &tab{T: t, site: s, ctx: ctx}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	// The page itself reports violations of its policy, whatever the console makes of them, and
	// records what was pressed, to help find out why a press had no effect.
	const listen = `addEventListener("securitypolicyviolation", (e) => console.error("forbidden by the policy: " + e.violatedDirective + " " + e.blockedURI));
		window.pressed = [];
		for (const type of ["pointerdown", "pointerup", "click", "keydown", "submit"]) addEventListener(type, (e) => pressed.push(type + (e.key ? " " + e.key : "") + " on " + e.target.outerHTML?.slice(0, 80)), true)`
	b.do(call(network.Enable, network.EnableParams{}), call(emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "UTC"}),
		call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: listen}))
	t.Cleanup(func() { b.fine("the end") })
	return b
}

// call is a command of the protocol as an action.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// run is an expression as an action.
func run(expression string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](expression, chromedp.EvalAwaitPromise)
}

// hear collects what is wrong.
func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if slices.Contains([]string{"error", "warning", "assert"}, string(e.Type)) {
			for _, a := range e.Args {
				b.wrong = append(b.wrong, "console: "+string(a.Value))
			}
		}
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, "exception: "+e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		away := b.cut && (e.Entry.Source == log.EntrySourceNetwork || strings.HasPrefix(e.Entry.Text, "EventSource's response")) // an answer that ended before it began
		if e.Entry.Level == log.EntryLevelError && !away {
			b.wrong = append(b.wrong, "log: "+e.Entry.Text+" "+e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if to := e.Request.URL; !strings.HasPrefix(to, b.proxy.URL+prefix+"/") && !strings.HasPrefix(to, "data:") {
			b.wrong = append(b.wrong, "a request elsewhere: "+to)
		}
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 && !b.cut {
			b.wrong = append(b.wrong, fmt.Sprintf("%d of %s", e.Response.Status, e.Response.URL))
		}
	case *page.EventJavascriptDialogOpening:
		b.wrong = append(b.wrong, "a dialog: "+e.Message)
	}
}

// found returns what was collected, and forgets it.
func (b *tab) found() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.wrong
	b.wrong = nil
	return was
}

// fine fails the test if something was wrong.
func (b *tab) fine(where string) {
	b.Helper()
	for _, w := range b.found() {
		b.Errorf("%s: %s", where, w)
	}
}

func (b *tab) away(is bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut = is
}

// do has the browser do something, but not for ever.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	get(b, chromedp.Steps(actions...))
}

// get has the browser find something out.
func get[V any](b *tab, action chromedp.Action[V]) V {
	b.Helper()
	// The first action opens the tab, which lives as long as its context.
	v, err := chromedp.Run(b.ctx, func(ctx context.Context, t *chromedp.Target) (V, error) {
		ctx, stop := context.WithTimeout(ctx, patience)
		defer stop()
		return action(ctx, t)
	})
	if err != nil {
		b.Fatal(err)
	}
	return v
}

// goTo opens a page by its path.
func (b *tab) goTo(path string) {
	b.Helper()
	b.do(chromedp.Navigate(b.proxy.URL + prefix + path))
}

// ask evaluates an expression in the page.
func ask[V any](b *tab, expression string) V {
	b.Helper()
	return get(b, chromedp.Evaluate[V](expression, chromedp.EvalAwaitPromise))
}

// until waits for an expression to hold in the page, also over a change of pages.
func (b *tab) until(what, expression string) {
	b.Helper()
	for asked, silent := 0, 0; ; asked++ {
		ctx, stop := context.WithTimeout(b.ctx, answersWithin)
		// While pages change there is none to ask.
		holds, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if holds {
			stop()
			return
		}
		if silent++; err == nil || ctx.Err() == nil {
			silent = 0
		}
		stop()
		if asked == mostAsked || silent == mostSilent {
			b.Fatalf("it does not hold that %s:\n%s", what, ask[string](b, `location.href + "\n" + document.body.innerText + "\n" + window.pressed?.slice(-12).join("\n")`))
		}
		time.Sleep(pollEvery)
	}
}

// ready waits until the page reacts to users: its scripts listen when it is complete, not when its
// first elements are there.
func (b *tab) ready() {
	b.Helper()
	b.until("the page is whole", `document.readyState === "complete"`)
}

// Keys without a letter.
const (
	enter  = "\r"
	escape = "\x1b"
	home   = "\x01"
	down   = "\x02"
)

// press presses keys, one after the other, as a keyboard does: a key that the page prevents has no
// effect.
func (b *tab) press(keys string) {
	b.Helper()
	b.ready()
	for _, r := range keys {
		key := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: string(r), Text: string(r)}
		switch string(r) {
		case enter:
			key.Key, key.WindowsVirtualKeyCode = "Enter", 13
		case escape:
			key.Key, key.Text, key.WindowsVirtualKeyCode = "Escape", "", 27
		case down:
			key.Key, key.Text, key.WindowsVirtualKeyCode = "ArrowDown", "", 40
		case home:
			key.Key, key.Text, key.WindowsVirtualKeyCode = "Home", "", 36
		}
		up := key
		up.Type, up.Text = input.DispatchKeyEventTypeKeyUp, ""
		b.do(call(input.DispatchKeyEvent, key), call(input.DispatchKeyEvent, up))
	}
}

// click clicks in the middle of an element, which is there or comes.
func (b *tab) click(selector string) {
	b.Helper()
	at := b.middle(selector)
	b.do(chromedp.MouseClickXY(at[0], at[1]))
}

// middle is that of an element, which is there or comes, and is brought into view.
func (b *tab) middle(selector string) []float64 {
	b.Helper()
	b.ready()
	found := "document.querySelector(" + quoted(selector) + ")"
	b.until(selector+" is there", found+"?.checkVisibility()")
	return ask[[]float64](b, "(() => { const el = "+found+"; el.scrollIntoView({ block: 'center' }); const r = el.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()")
}

// hold presses the pointer's button in the middle of an element; let releases it.
func (b *tab) hold(selector string) (let func()) {
	b.Helper()
	at := b.middle(selector)
	press := func(o *input.DispatchMouseEventParams) { o.Button, o.ClickCount = input.MouseButtonLeft, 1 }
	b.do(chromedp.MouseEvent(chromedp.MousePressed, at[0], at[1], press))
	return func() {
		b.Helper()
		b.do(chromedp.MouseEvent(chromedp.MouseReleased, at[0], at[1], press))
	}
}

// point moves the pointer into the middle of an element.
func (b *tab) point(selector string) {
	b.Helper()
	at := b.middle(selector)
	b.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at[0], at[1]))
}

// looks are how a page is looked at.
var looks = []struct {
	name          string
	scheme        string
	width, height int64
}{{"light", "light", 1280, 900}, {"dark", "dark", 1280, 900}, {"narrow", "light", 360, 740}}

// as sets the colour scheme and the size of the window.
func (b *tab) as(scheme string, width, height int64) {
	b.Helper()
	b.do(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}}),
		call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1}))
	// The page learns its size when it is drawn, and only then finds what scrolls.
	b.do(run(`new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn())))`))
}

// layout returns what is wrong with the layout of the page.
func (b *tab) layout() []string {
	b.Helper()
	return ask[[]string](b, check)
}

// barriers are the findings of axe that keep people from using the page.
func (b *tab) barriers() (all []string) {
	b.Helper()
	if !ask[bool](b, `!!window.axe`) {
		b.do(run(axe + ";undefined"))
	}
	const run = `axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations.filter((v) => v.impact === "serious" || v.impact === "critical").map((v) => ({id: v.id, help: v.help, nodes: v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " " + (n.any[0]?.message || ""))})))`
	for _, v := range ask[[]struct {
		ID, Help string
		Nodes    []string
	}](b, run) {
		all = append(all, fmt.Sprintf("%s: %s: %s", v.ID, v.Help, strings.Join(v.Nodes, "; ")))
	}
	return all
}

// shot takes a picture of what the window shows.
func (b *tab) shot(name string) (image.Image, []byte) {
	b.Helper()
	text := get(b, chromedp.CaptureScreenshot())
	is, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		b.Fatal(err)
	}
	if *shots != "" {
		if err := os.WriteFile(filepath.Join(*shots, name+".png"), text, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	return is, text
}

// ink is which share of a picture, without its head, is not background; light is how light that is,
// from 0 to 1.
func ink(of image.Image) (share, light float64) {
	at := of.Bounds()
	count := map[[3]uint32]int{}
	n := 0
	for y := at.Min.Y + at.Dy()/4; y < at.Max.Y; y += 2 {
		for x := at.Min.X; x < at.Max.X; x += 2 {
			r, g, b, _ := of.At(x, y).RGBA()
			count[[3]uint32{r, g, b}]++
			n++
		}
	}
	most, ground := 0, [3]uint32{}
	for c, k := range count {
		if k > most {
			most, ground = k, c
		}
	}
	return 1 - float64(most)/float64(n), float64(ground[0]+ground[1]+ground[2]) / (3 * 0xffff)
}

// perShape is how many pages of one kind are looked at.
const perShape = 3

// pages are the paths of the site that its navigation and links lead to; of pages that differ only
// in their subject, a few.
func (b *tab) pages() (all []string) {
	b.Helper()
	b.goTo("/")
	const links = `(within) => [...document.querySelectorAll(within)].map((a) => new URL(a.getAttribute("href"), location.href).href)`
	seen := map[string]int{}
	take := func(found []string) {
		for _, to := range found {
			u, err := url.Parse(to)
			path, ok := strings.CutPrefix(u.EscapedPath(), prefix)
			if err != nil || !ok || strings.HasSuffix(path, "/output") || slices.Contains(all, path) {
				continue
			}
			parts := strings.Split(path, "/")
			if len(parts) > 2 {
				parts[2] = "*" // its subject
			}
			if shape := strings.Join(parts, "/"); seen[shape] < perShape {
				seen[shape]++
				all = append(all, path)
			}
		}
	}
	take(ask[[]string](b, `(`+links+`)("header nav ul a")`))
	if len(all) < 2 {
		b.Fatalf("the navigation leads to %q alone", all)
	}
	for i := 0; i < len(all); i++ {
		b.goTo(all[i])
		take(ask[[]string](b, `(`+links+`)("main a[href]:not([download])")`))
	}
	b.Logf("pages: %q", all)
	return all
}

// called is a path as the name of a file.
func called(path string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("/%?=&", r) {
			return '-'
		}
		return r
	}, strings.Trim(path, "/")+"-page")
}

func quoted(v any) string {
	text, _ := json.Marshal(v) // a text is always JSON
	return string(text)
}

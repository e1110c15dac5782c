package connect

import (
	"io"
	"log/slog"
	"time"

	"github.com/rs/zerolog"

	"millrace/internal/cli/term"
)

// ProcessLogger is for long-lived processes: it logs for the operator on stderr, as text to a
// terminal and as JSON to anything else.
func (a *App) ProcessLogger() *slog.Logger {
	if !term.Colourful(a.Errs) {
		return logger(a.Errs, zerolog.InfoLevel)
	}
	return logger(zerolog.ConsoleWriter{Out: a.Errs, TimeFormat: time.TimeOnly}, zerolog.InfoLevel)
}

// logger writes messages of at least a level. Only this file knows the logging library.
func logger(w io.Writer, level zerolog.Level) *slog.Logger {
	return slog.New(zerolog.NewSlogHandler(zerolog.New(w).Level(level).With().Timestamp().Logger()))
}

// Logger tells the user about the connection; it is silent while all is well.
func (a *App) Logger() *slog.Logger {
	return logger(zerolog.ConsoleWriter{Out: a.Errs, NoColor: !term.Colourful(a.Errs), TimeFormat: time.TimeOnly}, zerolog.WarnLevel)
}

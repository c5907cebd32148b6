package model

import (
	"errors"
	"fmt"
	"strings"
)

// A message for people says first what to do, then what happened, then the chain of causes, on one line. An error
// carries what to do as a Remedy, wherever in the chain it is known, and whatever shows an error takes its Message.

// Remedy is the part of an error that says what to do about it. It holds no password.
type Remedy string //nolint:errname // it is a part of one

// Do makes a Remedy, to be wrapped as in fmt.Errorf("%w: %w: app %d", Do("provision it"), ErrUnknownApp, 7).
func Do(format string, args ...any) Remedy { return Remedy(fmt.Sprintf(format, args...)) }

// Error is the remedy itself.
func (r Remedy) Error() string { return string(r) }

// Message is an error for people, in one line that begins with the outermost Remedy, if there is one. It leaves the
// text of ErrInvalidArgument out, which says nothing that the rest does not. It is "" for no error.
func Message(err error) string {
	if err == nil {
		return ""
	}
	text := strings.NewReplacer("\r\n", "; ", "\n", "; ", ErrInvalidArgument.Error()+": ", "").Replace(err.Error())
	do, known := errors.AsType[Remedy](err)
	if !known {
		return text
	}
	before, after, _ := strings.Cut(text, string(do))
	return strings.TrimSuffix(string(do)+": "+before+strings.TrimPrefix(after, ": "), ": ")
}

package fsm

import "unicode/utf8"

// Clip is the text as a record keeps it, for comparing a new text with the recorded one.
func Clip(text string) string { return clip(text) }

// clip bounds text that enters the state, at the border of a character.
func clip(text string) string {
	if len(text) <= maxTextBytes {
		return text
	}
	end := maxTextBytes
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// checkPath refuses a path that no host could have.
func checkPath(what, path string) *Rejection {
	if path == "" || len(path) > maxPathBytes {
		return Reject(Invalid, "the %s must have 1 to %d bytes, it has %d", what, maxPathBytes, len(path))
	}
	return nil
}

// checkID refuses an identity that is empty or too long.
func checkID(what, id string) *Rejection {
	if id == "" || len(id) > maxIDBytes {
		return Reject(Invalid, "the %s must have 1 to %d bytes, it has %d", what, maxIDBytes, len(id))
	}
	return nil
}

package server

import (
	"slices"
	"strings"

	"github.com/kubernetes-csi/csi-lib-utils/protosanitizer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/fsm"
)

// redactedText replaces what was removed.
const redactedText = "***stripped***"

// minSensitiveLength is the shortest value in bytes that is searched for in texts: to
// replace shorter ones would take texts apart and protect nothing.
const minSensitiveLength = 3

// sensitiveFields are not marked csi_secret, yet their values must not be shown:
// container orchestrators (COs) put tokens into contexts, and mount flags may hold
// passwords.
var sensitiveFields = []protoreflect.Name{"volume_context", "publish_context", "mount_flags"}

// sensitiveKeys in any map: their values are never shown.
var sensitiveKeys = []string{"token", "secret", "password", "passphrase", "credential", "private"}

// Redacted prints a message for a log when it is printed at all.
type Redacted struct{ Message any }

// String is the message as JSON without secrets, values of contexts and mount flags.
func (r Redacted) String() string {
	msg, isMessage := r.Message.(proto.Message)
	if !isMessage {
		return redactedText
	}
	safe := proto.Clone(msg)
	visitStrings(safe.ProtoReflect(), func(field protoreflect.FieldDescriptor, value protoreflect.Value) {
		redactField(field, value)
	})
	return protosanitizer.StripSecrets(safe).String()
}

// visitStrings calls fn with each string map, string list and secret string of a message and below.
func visitStrings(msg protoreflect.Message, fn func(protoreflect.FieldDescriptor, protoreflect.Value)) {
	msg.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap() && field.MapValue().Kind() == protoreflect.StringKind,
			field.IsList() && field.Kind() == protoreflect.StringKind:
			fn(field, value)
		case isSecret(field) && field.Kind() == protoreflect.StringKind:
			fn(field, value)
		case field.IsList() && field.Kind() == protoreflect.MessageKind:
			for i := range value.List().Len() {
				visitStrings(value.List().Get(i).Message(), fn)
			}
		case !field.IsMap() && !field.IsList() && field.Kind() == protoreflect.MessageKind:
			visitStrings(value.Message(), fn)
		}
		return true
	})
}

func redactField(field protoreflect.FieldDescriptor, value protoreflect.Value) {
	if !field.IsList() && !field.IsMap() {
		return // protosanitizer strips a secret string
	}
	if field.IsList() {
		for i := range value.List().Len() {
			if slices.Contains(sensitiveFields, field.Name()) {
				value.List().Set(i, protoreflect.ValueOfString(redactedText))
			}
		}
		return
	}
	var keys []protoreflect.MapKey
	value.Map().Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		if isSensitive(field, key.String()) {
			keys = append(keys, key)
		}
		return true
	})
	for _, key := range keys {
		value.Map().Set(key, protoreflect.ValueOfString(redactedText))
	}
}

// isSensitive tells whether the value under a map's key must not be shown.
func isSensitive(field protoreflect.FieldDescriptor, key string) bool {
	lower := strings.ToLower(key)
	return isSecret(field) ||
		slices.Contains(sensitiveFields, field.Name()) && !strings.HasPrefix(key, csiconv.Prefix) ||
		slices.ContainsFunc(sensitiveKeys, func(word string) bool { return strings.Contains(lower, word) })
}

// removeSensitive removes every sensitive value of a request from a text that may quote
// it.
func removeSensitive(text string, request any) string {
	msg, isMessage := request.(proto.Message)
	if !isMessage || text == "" {
		return text
	}
	var values []string
	visitStrings(msg.ProtoReflect(), func(field protoreflect.FieldDescriptor, value protoreflect.Value) {
		values = append(values, sensitiveValues(field, value)...)
	})
	// The longest first, so that a value that contains another one leaves no rest.
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	for _, value := range values {
		text = strings.ReplaceAll(text, value, redactedText)
	}
	return text
}

// isPlainMountFlag: the name of a mount option is no secret, and refusals list such
// names.
func isPlainMountFlag(field protoreflect.FieldDescriptor, item string) bool {
	return field.Name() == "mount_flags" && fsm.PlainMountFlag(item)
}

func sensitiveValues(field protoreflect.FieldDescriptor, value protoreflect.Value) []string {
	var values []string
	add := func(text string) {
		if len(text) >= minSensitiveLength {
			values = append(values, text)
		}
	}
	if !field.IsList() && !field.IsMap() {
		add(value.String())
		return values
	}
	if field.IsList() {
		for i := range value.List().Len() {
			if item := value.List().Get(i).String(); slices.Contains(sensitiveFields, field.Name()) && !isPlainMountFlag(field, item) {
				add(item)
			}
		}
		return values
	}
	value.Map().Range(func(key protoreflect.MapKey, item protoreflect.Value) bool {
		if isSensitive(field, key.String()) {
			add(item.String())
		}
		return true
	})
	return values
}

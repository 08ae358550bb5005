package admin

import (
	"encoding/json"
	"io"

	"google.golang.org/protobuf/proto"
)

// PrintChange writes what changed of a list as one line of JSON: when it was seen, at which log index, how it changed, in which
// field of the answer it is where items are in several, and the item as it is now, or was last.
func PrintChange(w io.Writer, at string, index uint64, change, field string, item proto.Message) error {
	return json.NewEncoder(w).Encode(struct {
		Time   string         `json:"time"`
		Index  uint64         `json:"index"`
		Change string         `json:"change"`
		Field  string         `json:"field,omitempty"`
		Item   orderedMessage `json:"item"`
	}{at, index, change, field, orderedMessage{item}})
}

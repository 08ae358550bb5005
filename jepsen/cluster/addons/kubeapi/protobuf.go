package kubeapi

import (
	"bytes"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Clients write what is of Kubernetes itself in protobuf, and read JSON too. Of that the sidecar writes token reviews and leases, and
// the manager the metadata of claims.

const protobufType = "application/vnd.kubernetes.protobuf"

// magic is before the envelope of an object.
var magic = []byte("k8s\x00")

// message says what its fields are in JSON, by their numbers.
type message map[protowire.Number]field

type field struct {
	name string  // empty: of no interest to the server
	of   message // nil: a text or a number
	form form
}

// form is how a field that is there many times becomes JSON.
type form int

const (
	one   form = iota
	list       // of texts
	pairs      // of a key and a value
)

var (
	envelope = message{1: {}, 2: {name: "raw"}, 3: {}, 4: {}}
	moment   = message{1: {name: "seconds"}, 2: {name: "nanos"}}
	pair     = message{1: {name: "key"}, 2: {name: "value"}}
	metadata = message{1: {name: "name"}, 2: {}, 3: {name: "namespace"}, 4: {}, 5: {name: "uid"}, 6: {name: "resourceVersion"}, 7: {}, 8: {},
		9: {}, 10: {}, 11: {name: "labels", of: pair, form: pairs}, 12: {name: "annotations", of: pair, form: pairs}, 14: {name: "finalizers", form: list}}
	bodies = map[string]message{
		"Lease": {1: {name: "metadata", of: metadata}, 2: {name: "spec", of: message{1: {name: "holderIdentity"}, 2: {name: "leaseDurationSeconds"},
			3: {name: "acquireTime", of: moment}, 4: {name: "renewTime", of: moment}, 5: {name: "leaseTransitions"}}}},
		"TokenReview":           {1: {name: "metadata", of: metadata}, 2: {name: "spec", of: message{1: {name: "token"}}}, 3: {}},
		"PersistentVolumeClaim": {1: {name: "metadata", of: metadata}, 2: {}, 3: {}},
	}
)

// specless are the kinds of which only the metadata are read: an update leaves their spec as it is.
var specless = map[string]bool{"PersistentVolumeClaim": true}

// fromProtobuf reads an object of a kind. A field that it does not know is an error: nothing is lost unseen.
func fromProtobuf(kind string, text []byte) (Object, error) {
	shape, known := bodies[kind]
	text, enveloped := bytes.CutPrefix(text, magic)
	if !known || !enveloped {
		return nil, fmt.Errorf("a %s in protobuf is not read here", kind)
	}
	outer, err := envelope.read(text)
	if err != nil {
		return nil, err
	}
	raw, _ := outer["raw"].(string)
	return shape.read([]byte(raw))
}

func (m message) read(text []byte) (Object, error) {
	made := Object{}
	for len(text) > 0 {
		number, kind, n := protowire.ConsumeTag(text)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		f, known := m[number]
		if !known {
			return nil, fmt.Errorf("field %d is not read here", number)
		}
		value, used, err := f.read(kind, text[n:])
		if err != nil {
			return nil, err
		}
		f.add(made, value)
		text = text[n+used:]
	}
	return made, nil
}

// add adds one value of the field.
func (f field) add(made Object, value any) {
	switch below, _ := value.(map[string]any); {
	case f.name == "":
	case f.form == list:
		all, _ := made[f.name].([]any)
		made[f.name] = append(all, value)
	case f.form == pairs:
		all, _ := made[f.name].(map[string]any)
		if all == nil {
			all = map[string]any{}
		}
		text, _ := below["value"].(string) // an empty one is not written
		key, _ := below["key"].(string)
		all[key], made[f.name] = text, all
	default:
		made[f.name] = value
	}
}

// read reads one value, and how long it is.
func (f field) read(kind protowire.Type, text []byte) (value any, used int, err error) {
	switch kind {
	case protowire.VarintType:
		v, n := protowire.ConsumeVarint(text)
		return float64(v), n, protowire.ParseError(min(n, 0))
	case protowire.BytesType:
		v, n := protowire.ConsumeBytes(text)
		if n < 0 || f.of == nil {
			return string(v), n, protowire.ParseError(min(n, 0))
		}
		below, err := f.of.read(v)
		if err == nil && f.of[1].name == "seconds" {
			return below.time(), n, nil
		}
		return map[string]any(below), n, err
	}
	return nil, 0, fmt.Errorf("field %s is of kind %d, which is not read here", f.name, kind)
}

// time is a moment as JSON has it.
func (o Object) time() string {
	return time.Unix(int64(number(o["seconds"])), int64(number(o["nanos"]))).UTC().Format("2006-01-02T15:04:05.000000Z07:00")
}

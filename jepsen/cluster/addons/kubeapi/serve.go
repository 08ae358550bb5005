package kubeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// target is what a path names: a collection, or one object.
type target struct {
	selection
	status bool
}

func (t target) ref(name string) Ref { return Ref{t.resource.name, t.namespace, name} }

// parsePath reads the paths below /api/v1 and /apis/GROUP/VERSION.
func parsePath(path string) (target, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	skip := 2
	if parts[0] == "apis" {
		skip = 3
	}
	if len(parts) <= skip {
		return target{}, false
	}
	prefix, parts := strings.Join(parts[:skip], "/"), parts[skip:]
	var t target
	if parts[0] == "namespaces" && len(parts) > 2 {
		t.namespace, parts = parts[1], parts[2:]
	}
	r, known := find(parts[0])
	if !known || strings.TrimPrefix(strings.TrimPrefix(prefix, "apis/"), "api/") != r.groupVersion() || len(parts) > 3 {
		return target{}, false
	}
	t.resource = r
	if len(parts) > 1 {
		t.name = parts[1]
	}
	t.status = len(parts) == 3 && parts[2] == "status" && r.status
	return t, t.status || len(parts) < 3
}

// ServeHTTP serves who has the token.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+s.token {
		answer(w, nil, refuse(http.StatusUnauthorized, "Unauthorized", "no such token"))
		return
	}
	if found, known := discover(r.URL.Path); known {
		answer(w, found, nil)
		return
	}
	t, known := parsePath(r.URL.Path)
	switch {
	case !known:
		answer(w, nil, refuse(http.StatusNotFound, "NotFound", "%s is not served here", r.URL.Path))
	case r.Method == http.MethodGet && t.name == "":
		s.serveCollection(w, r, t)
	default:
		o, err := s.serveObject(r, t)
		answer(w, o, err)
	}
}

func (s *Server) serveObject(r *http.Request, t target) (Object, error) {
	switch r.Method {
	case http.MethodGet:
		return s.store.get(t.ref(t.name))
	case http.MethodDelete:
		return s.store.remove(t.ref(t.name))
	case http.MethodPost:
		return s.serveCreate(r, t)
	case http.MethodPut:
		given, err := t.body(r)
		if err != nil {
			return nil, err
		}
		return s.store.update(t.resource, t.ref(t.name), t.status, func(old Object) (Object, error) {
			if _, whole := given["spec"]; !whole && specless[t.resource.kind] {
				given["spec"] = old["spec"]
			}
			return given, nil
		})
	case http.MethodPatch:
		given, err := t.body(r)
		if err != nil {
			return nil, err
		}
		return s.store.update(t.resource, t.ref(t.name), t.status, func(old Object) (Object, error) { merge(old, given); return old, nil })
	}
	return nil, refuse(http.StatusMethodNotAllowed, "MethodNotAllowed", "%s", r.Method)
}

func (s *Server) serveCreate(r *http.Request, t target) (Object, error) {
	given, err := t.body(r)
	switch {
	case err != nil:
		return nil, err
	case t.resource.kind == "TokenReview":
		given["kind"], given["apiVersion"] = t.resource.kind, t.resource.groupVersion()
		given["status"] = map[string]any{"authenticated": given.Text("spec", "token") == s.token}
		return given, nil
	}
	return s.store.create(t.resource, t.ref(given.Text("metadata", "name")), given)
}

// serveCollection lists or watches. Only the name can be selected.
func (s *Server) serveCollection(w http.ResponseWriter, r *http.Request, t target) {
	q := r.URL.Query()
	if fields := q.Get("fieldSelector"); fields != "" {
		name, ok := strings.CutPrefix(fields, "metadata.name=")
		if t.name = name; !ok {
			answer(w, nil, refuse(http.StatusBadRequest, "BadRequest", "the field selector %q is not served here", fields))
			return
		}
	}
	if labels := q.Get("labelSelector"); labels != "" {
		answer(w, nil, refuse(http.StatusBadRequest, "BadRequest", "the label selector %q is not served here", labels))
		return
	}
	if on, _ := strconv.ParseBool(q.Get("watch")); on {
		s.serveWatch(w, r, t)
		return
	}
	items, version := s.store.list(t.selection)
	answer(w, map[string]any{"kind": t.resource.kind + "List", "apiVersion": t.resource.groupVersion(),
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(version)}, "items": items}, nil)
}

func (s *Server) serveWatch(w http.ResponseWriter, r *http.Request, t target) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	_ = out.Flush() // a client that is gone is noticed by the next event
	lines := json.NewEncoder(w)
	q := r.URL.Query()
	_ = s.store.watch(r.Context(), t.selection, q.Get("resourceVersion"), q.Get("sendInitialEvents") == "true", func(kind string, o Object) error {
		return errors.Join(lines.Encode(map[string]any{"type": kind, "object": o}), out.Flush())
	})
}

// body reads the object of a request: JSON, for a patch a merge patch, and of some kinds protobuf.
func (t target) body(r *http.Request) (given Object, err error) {
	want, kind := "application/json", r.Header.Get("Content-Type")
	if r.Method == http.MethodPatch {
		want = "application/merge-patch+json"
	}
	text, err := io.ReadAll(r.Body)
	switch kind, _, _ = strings.Cut(kind, ";"); {
	case err != nil:
	case kind == want:
		err = json.Unmarshal(text, &given)
	case kind == protobufType:
		given, err = fromProtobuf(t.resource.kind, text)
	default:
		err = fmt.Errorf("it comes as %q", kind)
	}
	if err != nil || given == nil {
		return nil, refuse(http.StatusUnsupportedMediaType, "UnsupportedMediaType", "%s %s: %v", r.Method, r.URL.Path, err)
	}
	return given, nil
}

// answer writes an answer, or an error as a Status.
func answer(w http.ResponseWriter, content any, err error) {
	code := http.StatusOK
	var p *problem
	if errors.As(err, &p) {
		code = p.code
		content = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": p.reason, "message": p.message, "code": code}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(content) // a client that is gone needs no answer
}

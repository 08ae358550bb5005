// Package apitest has API servers for tests: a small one that fails where a test says so, and a real one.
package apitest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Fake keeps objects by their paths, as an API server does: it creates each once, and replaces one only where its version is
// the one that is known.
type Fake struct {
	// Before and After are called with each request, as METHOD PATH; where they return false the request ends without an
	// answer, before or after it had its effect.
	Before, After func(request string) bool
	// Answer answers a request by itself; nil: none.
	Answer func(request string, body map[string]any) (object map[string]any)

	mu       sync.Mutex
	objects  map[string]map[string]any
	version  int
	Requests []string
}

// Serve starts the server, and returns its client.
func (f *Fake) Serve(t *testing.T) kubernetes.Interface {
	t.Helper()
	f.objects = map[string]map[string]any{}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	api, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}, QPS: -1})
	require.NoError(t, err)
	return api
}

// Remove removes an object, as KIND/NAME of the namespace ns.
func (f *Fake) Remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.objects, "/api/v1/namespaces/ns/"+name)
}

// Object is an object of the namespace ns, nil where there is none.
func (f *Fake) Object(name string) map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.objects["/api/v1/namespaces/ns/"+name]
}

// ServeHTTP implements http.Handler.
func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request := r.Method + " " + r.URL.Path
	if f.Before != nil && !f.Before(request) {
		panic(http.ErrAbortHandler)
	}
	code, answer := f.handle(request, r)
	if f.After != nil && !f.After(request) {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer)
}

func (f *Fake) handle(request string, r *http.Request) (code int, answer map[string]any) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Requests = append(f.Requests, request)
	if f.Answer != nil {
		if object := f.Answer(request, body); object != nil {
			return http.StatusOK, object
		}
	}
	at := r.URL.Path
	if r.Method == http.MethodPost {
		name, _ := body["metadata"].(map[string]any)["name"].(string)
		at = path.Join(at, name)
	}
	known := f.objects[at]
	switch {
	case r.Method == http.MethodPost && known != nil:
		return status(http.StatusConflict, "AlreadyExists")
	case r.Method != http.MethodPost && known == nil:
		return status(http.StatusNotFound, "NotFound")
	case r.Method == http.MethodGet:
		return http.StatusOK, known
	case r.Method == http.MethodPut && versionOf(known) != versionOf(body):
		return status(http.StatusConflict, "Conflict")
	}
	f.version++
	body["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(f.version)
	f.objects[at] = body
	return http.StatusOK, body
}

func versionOf(object map[string]any) any {
	return object["metadata"].(map[string]any)["resourceVersion"]
}

func status(code int, reason string) (int, map[string]any) {
	return code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": strings.ToLower(reason)}
}

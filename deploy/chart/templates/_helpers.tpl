{{- /* Names are fixed, as the driver's is: a cluster has Holdfast once. */ -}}
{{- define "holdfast.driver" -}}csi.holdfast.storage{{- end }}

{{- define "holdfast.labels" -}}
app.kubernetes.io/name: holdfast
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* Labels by which objects find pods: selectors are immutable, so these never change. (dict "root" $ "component" NAME) */ -}}
{{- define "holdfast.selector" -}}
app.kubernetes.io/name: holdfast
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- /* An image's reference. (dict "root" $ "image" VALUES) */ -}}
{{- define "holdfast.image" -}}
{{- $registry := .root.Values.global.imageRegistry | default .image.registry -}}
{{- with $registry }}{{ . }}/{{ end }}{{ .image.repository }}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* What a container that needs nothing gets. */ -}}
{{- define "holdfast.restricted" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "holdfast.podEnv" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
{{- end }}

{{- /* The zone comes with a pod's own labels, which Kubernetes copies from the node from 1.35 on. */ -}}
{{- define "holdfast.zoneEnv" -}}
{{- if .Values.zoneFromNode }}
- name: ZONE
  valueFrom: {fieldRef: {fieldPath: "metadata.labels['topology.kubernetes.io/zone']"}}
{{- end }}
{{- end }}

{{- /* The controllers' addresses at a port, separated by commas. (dict "root" $ "port" PORT) */ -}}
{{- define "holdfast.controllerAddresses" -}}
{{- $out := list -}}
{{- range $i := until (int .root.Values.controller.replicas) -}}
{{- $out = append $out (printf "holdfast-controller-%d.holdfast-controller.%s.svc:%v" $i $.root.Release.Namespace $.port) -}}
{{- end -}}
{{- join "," $out -}}
{{- end }}

{{- define "holdfast.logArgs" -}}
- --log-level={{ .Values.logLevel }}
- --log-format={{ .Values.logFormat }}
{{- end }}

{{- define "holdfast.commonArgs" -}}
{{ include "holdfast.logArgs" . }}
- --site={{ .Values.site }}
- --node-timeout={{ .Values.nodeTimeout }}
{{- range .Values.disabledCapabilities }}
- --disable-capability={{ . }}
{{- end }}
{{- if and .Values.csiAddons.enabled .Values.csiAddons.tokenSecretName }}
- --addons-token-file=/etc/holdfast/addons/token
{{- end }}
{{- end }}

{{- define "holdfast.addonsMount" -}}
{{- if and .Values.csiAddons.enabled .Values.csiAddons.tokenSecretName }}
- {name: addons-token, mountPath: /etc/holdfast/addons, readOnly: true}
{{- end }}
{{- end }}

{{- define "holdfast.addonsVolume" -}}
{{- if and .Values.csiAddons.enabled .Values.csiAddons.tokenSecretName }}
- name: addons-token
  # The sidecar sends the Secret's keys as they are called: one key is what is sent and what is wanted.
  secret: {secretName: {{ .Values.csiAddons.tokenSecretName }}, defaultMode: 0440, items: [{key: holdfastToken, path: token}]}
{{- end }}
{{- end }}

{{- /* The Secret that classes of CSI-Addons name: its sidecar makes no call of theirs without one, so there is an empty one without a token. */ -}}
{{- define "holdfast.addonsSecret" -}}
{{- .Values.csiAddons.tokenSecretName | default "holdfast-csi-addons" -}}
{{- end }}

{{- /* "true" where a value of auto, true or false, and the cluster, say so. (dict "root" $ "value" VALUE "api" GROUP/VERSION) */ -}}
{{- define "holdfast.wanted" -}}
{{- if eq (toString .value) "auto" -}}
{{- if .root.Capabilities.APIVersions.Has .api }}true{{ end -}}
{{- else if eq (toString .value) "true" }}true{{ end -}}
{{- end }}

{{- define "holdfast.snapshots" -}}
{{- include "holdfast.wanted" (dict "root" . "value" .Values.snapshots.enabled "api" "snapshot.storage.k8s.io/v1") -}}
{{- end }}

{{- define "holdfast.groupSnapshots" -}}
{{- if include "holdfast.snapshots" . -}}
{{- include "holdfast.wanted" (dict "root" . "value" .Values.snapshots.groups "api" "groupsnapshot.storage.k8s.io/v1") -}}
{{- end -}}
{{- end }}

{{- define "holdfast.podMonitors" -}}
{{- include "holdfast.wanted" (dict "root" . "value" .Values.metrics.podMonitor.enabled "api" "monitoring.coreos.com/v1") -}}
{{- end }}

{{- /* Whether the nodes' metrics can be reached from outside their host. */ -}}
{{- define "holdfast.nodeMetricsOpen" -}}
{{- if eq .Values.node.metricsAddress "hostIP" }}true
{{- else if and (eq .Values.node.metricsAddress "") (include "holdfast.podMonitors" .) }}true{{ end -}}
{{- end }}

{{- define "holdfast.metadataAddress" -}}
holdfast-snapshot-metadata.{{ .Release.Namespace }}:6443
{{- end }}

{{- /* Whether the loop keeps the SnapshotMetadataService, by the CA certificate in the Secret of its TLS: not empty then. */ -}}
{{- define "holdfast.loopMetadata" -}}
{{- if and .Values.snapshotMetadata.enabled .Values.kube.enabled (not .Values.snapshotMetadata.caCert) }}yes{{ end }}
{{- end }}

{{- /* What pods tolerate by the values, and the taint of nodes that join: where they do not run it is never taken off. */ -}}
{{- define "holdfast.tolerations" -}}
{{- $startup := dict "key" "csi.holdfast.storage/agent-not-ready" "operator" "Exists" }}
{{- if or (has (dict "operator" "Exists") .) (has $startup .) }}
{{- toYaml . }}
{{- else }}
{{- toYaml (append (default list .) $startup) }}
{{- end }}
{{- end }}

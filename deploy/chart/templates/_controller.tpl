{{- define "holdfast.controllerEnv" -}}
{{ include "holdfast.podEnv" . }}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{- include "holdfast.zoneEnv" . }}
{{- with .Values.controller.backup }}
{{- if and .to .credentialsSecretName }}
{{- range list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" }}
- name: {{ . }}
  valueFrom: {secretKeyRef: {name: {{ $.Values.controller.backup.credentialsSecretName }}, key: {{ . }}}}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The volume's own root stays root's; below it everything is the controller's. */ -}}
{{- define "holdfast.controllerMounts" -}}
- {name: data, mountPath: /var/lib/holdfast{{ if eq .Values.controller.storage.type "class" }}, subPath: holdfast{{ end }}}
- {name: csi, mountPath: /run/holdfast/csi}
{{- include "holdfast.controllerPKIMounts" . }}
{{- end }}

{{- define "holdfast.controllerArgs" -}}
{{ include "holdfast.commonArgs" . }}
- --name=$(POD_NAME)
- --data-dir=/var/lib/holdfast/controller
- --tls-dir={{ include "holdfast.controllerTLSDir" . }}
- --csi-endpoint=unix:///run/holdfast/csi/csi.sock
- --raft-listen=:9800
- --raft-advertise=$(POD_NAME).holdfast-controller.$(POD_NAMESPACE).svc:9800
- --api-listen=:9802
- --api-advertise=$(POD_NAME).holdfast-controller.$(POD_NAMESPACE).svc:9802
{{- /* In brackets an IPv6 address is understood, and an IPv4 one too. */}}
- --metrics-listen=[$(POD_IP)]:9801
- --bootstrap-from=/var/lib/holdfast/controller/kube-init.json
- --join={{ include "holdfast.controllerAddresses" (dict "root" . "port" 9800) }}
- --replace-after={{ .Values.controller.replaceAfter }}
- --drain-timeout=10s
{{- if .Values.zoneFromNode }}
- --zone=$(ZONE)
{{- end }}
{{- include "holdfast.enrollArgs" . }}
{{- with .Values.controller.backup }}
{{- if .to }}
- --backup-to={{ .to }}
- --backup-interval={{ .interval }}
{{- with .endpoint }}
- --backup-s3-endpoint={{ . }}
{{- end }}
{{- with .region }}
- --backup-s3-region={{ . }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "holdfast.controllerInit" -}}
# What kubelet makes is root's: its folders become the controller's. The only container with any capability here.
- name: data-folder
  image: {{ include "holdfast.image" (dict "root" . "image" .Values.image) }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [/bin/sh, -ec, "cd /var/lib/holdfast; mkdir -p controller tls; chown 9800:9800 . controller tls; chmod 0700 controller tls"]
  securityContext:
    runAsUser: 0
    runAsNonRoot: false
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL], add: [CHOWN, FOWNER, DAC_OVERRIDE]}
  resources:
    {{- toYaml .Values.kube.init.resources | nindent 4 }}
  volumeMounts:
    - {name: data, mountPath: /var/lib/holdfast{{ if eq .Values.controller.storage.type "class" }}, subPath: holdfast{{ end }}}
- name: kube-init
  image: {{ include "holdfast.image" (dict "root" . "image" .Values.image) }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [/usr/bin/holdfast]
  args:
    - kube-init
    {{- include "holdfast.kubeInitArgs" . | nindent 4 }}
    {{- range .Values.kube.init.extraArgs }}
    - {{ . | quote }}
    {{- end }}
  env:
    {{- include "holdfast.podEnv" . | nindent 4 }}
  {{- include "holdfast.restricted" . | nindent 2 }}
  resources:
    {{- toYaml .Values.kube.init.resources | nindent 4 }}
  volumeMounts:
    {{- include "holdfast.controllerMounts" . | nindent 4 }}
{{- end }}

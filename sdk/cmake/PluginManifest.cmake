# cmake -DMANIFEST=... -DLIBRARY=... -DOUTPUT=... -P PluginManifest.cmake: the manifest with the hash of the library that it
# belongs to, which the loader compares. MANIFEST and OUTPUT may be one file.
file(SHA256 "${LIBRARY}" sum)
file(READ "${MANIFEST}" text)
string(REGEX REPLACE "^sha256 = [^\n]*\n" "" text "${text}")
file(WRITE "${OUTPUT}" "sha256 = \"${sum}\"\n${text}")

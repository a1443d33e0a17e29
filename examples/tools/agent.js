// stockade run --tools tools.yaml agent.js
(async () => {
  const notes = await callTool('search_notes', { word: 'wall', most: 5 });
  console.log(`${notes.length} notes on walls`);
  for (const note of notes) console.log(`- ${note.title}: ${note.text}`);
})();
